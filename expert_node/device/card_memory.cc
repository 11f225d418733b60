#include "expert_node/device/card_memory.h"

#include <algorithm>

#include "common/base/memory_budget.h"
#include "common/base/status_macros.h"

namespace deltafin {

absl::StatusOr<CardSlots> TakeCardSlots(ExpertCard& card, size_t slot_bytes,
                                        size_t least_slots, size_t most_slots,
                                        const CardMemoryOptions& options) {
  ASSIGN_OR_RETURN(const uint64_t free_bytes, card.FreeBytes());
  const uint64_t usable =
      free_bytes - std::min(free_bytes, options.headroom_bytes);
  const uint64_t asked = options.most_bytes == 0 ? usable : options.most_bytes;
  const size_t wanted =
      std::min<uint64_t>(most_slots, std::min(asked, usable) / slot_bytes);
  CardSlots taken;
  if (usable < asked && wanted < most_slots) {
    taken.shortfall =
        fmt::format("{} are free and {} stay so", FormatByteSize(free_bytes),
                    FormatByteSize(options.headroom_bytes));
  }
  const size_t at_once =
      std::max<size_t>(1, options.bytes_at_once / slot_bytes);
  while (taken.slots.size() < wanted) {
    const size_t count = std::min(at_once, wanted - taken.slots.size());
    const absl::StatusOr<uint8_t*> memory = card.Allocate(count * slot_bytes);
    if (!memory.ok()) {
      taken.shortfall = std::string(memory.status().message());
      break;
    }
    for (size_t i = 0; i < count; ++i) {
      taken.slots.push_back(*memory + i * slot_bytes);
    }
  }
  if (taken.slots.size() >= least_slots) return taken;
  return absl::UnavailableError(
      fmt::format("{}: room for {} slices of {} bytes, {} are needed{}{}",
                  card.name(), taken.slots.size(), slot_bytes, least_slots,
                  taken.shortfall.empty() ? "" : ": ", taken.shortfall));
}

}  // namespace deltafin
