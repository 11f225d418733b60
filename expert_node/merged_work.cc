#include "expert_node/merged_work.h"

namespace deltafin {

MergedWork::MergedWork(std::span<const LayerWork* const> parts)
    : first_token_{0} {
  for (const LayerWork* part : parts) Add(*part);
}

MergedWork::MergedWork(const LayerWork& part) : first_token_{0} { Add(part); }

void MergedWork::Add(const LayerWork& part) {
  for (int i = 0; i < part.num_tokens; ++i) tokens_.push_back({&part, i});
  first_token_.push_back(num_tokens());
}

}  // namespace deltafin
