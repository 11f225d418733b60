#include "coordinator/cluster/slice_set.h"

#include <algorithm>

#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

absl::Status Unfit(std::string_view field, size_t value, size_t wanted) {
  return absl::InvalidArgumentError(fmt::format(
      "holdings.{} is {}, this model needs {}; start node and coordinator from "
      "the same model and release",
      field, value, wanted));
}

}  // namespace

SliceSet::SliceSet(int first_layer, int num_layers, int num_experts,
                   int num_slices)
    : first_layer_(first_layer),
      num_layers_(num_layers),
      num_experts_(num_experts),
      num_slices_(num_slices),
      bits_(size_t(num_layers) * num_experts * num_slices) {}

absl::StatusOr<SliceSet> SliceSet::FromProto(const v1::Holdings& holdings,
                                             int first_layer, int num_layers,
                                             int num_experts, int num_slices) {
  const size_t bytes_per_expert = (num_slices + 7) / 8;
  if (holdings.bytes_per_expert() != bytes_per_expert) {
    return Unfit("bytes_per_expert", holdings.bytes_per_expert(),
                 bytes_per_expert);
  }
  if (holdings.layers_size() != num_layers) {
    return Unfit("layers", holdings.layers_size(), num_layers);
  }
  SliceSet set(first_layer, num_layers, num_experts, num_slices);
  size_t bit = 0;
  for (const std::string& layer : holdings.layers()) {
    if (layer.size() != bytes_per_expert * num_experts) {
      return Unfit("layers size", layer.size(), bytes_per_expert * num_experts);
    }
    for (int expert = 0; expert < num_experts; ++expert) {
      const char* bytes = &layer[expert * bytes_per_expert];
      for (int slice = 0; slice < num_slices; ++slice) {
        set.bits_[bit++] = bytes[slice / 8] >> (slice % 8) & 1;
      }
    }
  }
  return set;
}

void SliceSet::ToProto(v1::Holdings* holdings) const {
  const size_t bytes_per_expert = (num_slices_ + 7) / 8;
  holdings->set_everything(false);
  holdings->set_bytes_per_expert(static_cast<uint32_t>(bytes_per_expert));
  holdings->clear_layers();
  size_t bit = 0;
  for (int layer = 0; layer < num_layers_; ++layer) {
    std::string bytes(bytes_per_expert * num_experts_, '\0');
    for (int expert = 0; expert < num_experts_; ++expert) {
      for (int slice = 0; slice < num_slices_; ++slice) {
        if (bits_[bit++]) {
          bytes[expert * bytes_per_expert + slice / 8] |=
              static_cast<char>(1 << slice % 8);
        }
      }
    }
    holdings->add_layers(std::move(bytes));
  }
}

bool SliceSet::ContainsAll(ExpertKey key, SliceRun run) const {
  const auto first = bits_.begin() + BitOf(key, run.first);
  return std::all_of(first, first + run.count, [](bool bit) { return bit; });
}

void SliceSet::Add(ExpertKey key, SliceRun run) {
  const auto first = bits_.begin() + BitOf(key, run.first);
  std::fill(first, first + run.count, true);
}

void SliceSet::Remove(ExpertKey key, SliceRun run) {
  const auto first = bits_.begin() + BitOf(key, run.first);
  std::fill(first, first + run.count, false);
}

int64_t SliceSet::size() const {
  return std::count(bits_.begin(), bits_.end(), true);
}

}  // namespace deltafin
