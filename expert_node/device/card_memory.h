// expert_node/device/card_memory.h
//
// How much of a card's memory becomes slots for slices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "expert_node/device/expert_card.h"

namespace deltafin {

struct CardMemoryOptions {
  // Most bytes of slots. 0: what is free.
  uint64_t most_bytes = 0;
  // Bytes that stay free for others, as programs that use the card, too.
  uint64_t headroom_bytes = uint64_t{1} << 30;
  // Of one allocation. Smaller: less is lost when the card refuses one.
  uint64_t bytes_at_once = uint64_t{1} << 30;
};

struct CardSlots {
  std::vector<uint8_t*> slots;  // the card's addresses
  // In words, where the card refused memory that it said was free, or there is
  // less than was asked for. Empty: neither.
  std::string shortfall;
};

// Takes slots of `slot_bytes`, at most `most_slots`. An allocation that the
// card refuses ends it with what there is. Errors: UNAVAILABLE, in one
// sentence, when that is less than `least_slots`; those of FreeBytes.
absl::StatusOr<CardSlots> TakeCardSlots(ExpertCard& card, size_t slot_bytes,
                                        size_t least_slots, size_t most_slots,
                                        const CardMemoryOptions& options);

}  // namespace deltafin
