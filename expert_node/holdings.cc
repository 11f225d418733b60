#include "expert_node/holdings.h"

#include <bit>
#include <string>
#include <utility>

namespace deltafin {

v1::Holdings HoldingsOf(const ModelSpec& spec, const ExpertStore& experts) {
  v1::Holdings holdings;
  const uint64_t version = experts.held_version();
  holdings.set_version(version);
  if (version == 0) {
    holdings.set_everything(true);
    return holdings;
  }
  const size_t width = (spec.expert_shape().num_slices() + 7) / 8;
  holdings.set_bytes_per_expert(width);
  for (int layer = spec.first_k_dense_replace; layer < spec.num_hidden_layers;
       ++layer) {
    std::string bits(width * spec.num_experts, '\0');
    for (int expert = 0; expert < spec.num_experts; ++expert) {
      const uint64_t mask = experts.HeldMask({layer, expert});
      for (size_t i = 0; i < width; ++i) {
        bits[width * expert + i] = static_cast<char>(mask >> (8 * i));
      }
    }
    holdings.add_layers(std::move(bits));
  }
  return holdings;
}

uint64_t CountHeldSlices(const ModelSpec& spec, const ExpertStore& experts) {
  const uint64_t num_experts =
      static_cast<uint64_t>(spec.num_experts) * spec.num_moe_layers();
  if (experts.held_version() == 0) {
    return num_experts * spec.expert_shape().num_slices();
  }
  uint64_t count = 0;
  for (int layer = spec.first_k_dense_replace; layer < spec.num_hidden_layers;
       ++layer) {
    for (int expert = 0; expert < spec.num_experts; ++expert) {
      count += std::popcount(experts.HeldMask({layer, expert}));
    }
  }
  return count;
}

}  // namespace deltafin
