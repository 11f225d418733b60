#include "spine_node/residency.h"

#include <algorithm>

#include "spine_node/spine_file.h"

namespace deltafin {

bool StreamsLayer(int layer, int num_layers, int num_streamed) {
  const int64_t before = int64_t{layer} * num_streamed / num_layers;
  const int64_t with = (int64_t{layer} + 1) * num_streamed / num_layers;
  return with > before;
}

SpineResidency ResidencyOf(uint64_t weight_bytes,
                           std::span<const uint64_t> layer_bytes,
                           int num_streamed) {
  const int num_layers = static_cast<int>(layer_bytes.size());
  SpineResidency residency{.num_streamed = num_streamed};
  uint64_t largest = 0;
  for (int layer = 0; layer < num_layers; ++layer) {
    if (!StreamsLayer(layer, num_layers, num_streamed)) continue;
    residency.step_bytes += layer_bytes[layer];
    largest = std::max(largest, SpineFile::BufferBytes(layer_bytes[layer]));
  }
  residency.buffer_bytes = std::min(num_streamed, 2) * largest;
  residency.memory_bytes =
      weight_bytes - residency.step_bytes + residency.buffer_bytes;
  return residency;
}

SpineResidency ChooseResidency(uint64_t weight_bytes,
                               std::span<const uint64_t> layer_bytes,
                               uint64_t most_bytes) {
  SpineResidency least = ResidencyOf(weight_bytes, layer_bytes, 0);
  const int num_layers = static_cast<int>(layer_bytes.size());
  for (int streamed = 0; streamed <= num_layers; ++streamed) {
    const SpineResidency tried =
        ResidencyOf(weight_bytes, layer_bytes, streamed);
    if (tried.memory_bytes <= most_bytes) return tried;
    if (tried.memory_bytes < least.memory_bytes) least = tried;
  }
  return least;
}

}  // namespace deltafin
