#include "expert_node/storage/stored_experts.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/aligned_buffer.h"
#include "common/base/log.h"
#include "common/base/memory_budget.h"
#include "common/base/status_macros.h"

namespace deltafin {

absl::StatusOr<int> StoredExperts::SetQuota(std::optional<uint64_t> quota_bytes,
                                            Surplus surplus) {
  RETURN_IF_ERROR(ledger_.KeepQuota(quota_bytes));
  records_.SetQuota(quota_bytes.value_or(RecordStoreOptions::kNoQuota));
  spdlog::info("{}: the quota is {} now", records_.folder(),
               quota_bytes ? FormatByteSize(*quota_bytes) : "unlimited");
  if (surplus == Surplus::kKeep || !quota_bytes) return 0;
  return RemoveColdest(*quota_bytes);
}

absl::StatusOr<int> StoredExperts::RemoveColdest(uint64_t until_bytes) {
  std::vector<std::pair<double, ExpertKey>> held;
  const RecordModel& model = records_.model();
  for (int layer = model.first_moe_layer; layer < model.num_layers; ++layer) {
    for (int expert = 0; expert < model.num_experts; ++expert) {
      const ExpertKey key = {layer, expert};
      if (records_.HeldSlices(key).empty()) continue;
      held.emplace_back(tier_.HeatOf(key), key);
    }
  }
  std::sort(held.begin(), held.end());
  int removed = 0;
  for (const auto& [heat, key] : held) {
    if (records_.stats().held_bytes <= until_bytes) break;
    ASSIGN_OR_RETURN(const int one, Remove(key));
    removed += one;
  }
  return removed;
}

absl::StatusOr<int> StoredExperts::Remove(ExpertKey key) {
  const bool is_there = !records_.HeldSlices(key).empty();
  RETURN_IF_ERROR(records_.Remove(key, {0, records_.shape().num_slices()}));
  return is_there ? 1 : 0;
}

absl::Status StoredExperts::Fetch(ExpertKey key) {
  const ExpertShape& shape = records_.shape();
  const SliceRun all = {0, shape.num_slices()};
  RETURN_IF_ERROR(records_.CheckName(key, all));
  if (records_.Holds(key, all)) return absl::OkStatus();
  ASSIGN_OR_RETURN(AlignedBuffer buffer,
                   AlignedBuffer::Allocate(shape.payload_bytes()));
  std::vector<uint8_t*> out;
  for (int i = 0; i < all.count; ++i) {
    out.push_back(buffer.data() + shape.slice_offset(i));
  }
  RETURN_IF_ERROR(source_.Read(key, all, out, [](int) {}).status());
  source_.WaitForInstalls();
  if (records_.Holds(key, all)) return absl::OkStatus();
  return absl::ResourceExhaustedError(fmt::format(
      "layer {} expert {} was fetched, but {} has no room for it: raise the "
      "quota or remove others",
      key.layer, key.expert, records_.folder()));
}

}  // namespace deltafin
