// tests/testing/host_card.h
//
// A card that is none: an ExpertCard in ordinary memory, on the scalar kernel.
// It does what it was told as late as it may, and copies before runs, as a real
// card could at worst: a buffer or a slot that is used again too soon gives
// wrong sums. It refuses memory and fails calls on order.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "expert_node/device/expert_card.h"

namespace deltafin::testing {

// What a test tells its card, and what it sees of it; outlives the card.
// Thread-safe after the card is opened.
struct HostCardOrders {
  uint64_t memory_bytes = uint64_t{1}
                          << 30;  // that FreeBytes tells of at first
  uint64_t allocatable_bytes = ~uint64_t{0};  // less than it tells
  // That call (from 0, of all but FreeBytes and Allocate) and all after it
  // fail.
  std::atomic<int> fail_from{1 << 30};
  std::atomic<int> num_calls{0};
  std::atomic<int> num_copies{0};
  std::atomic<int> num_runs{0};
};

std::unique_ptr<ExpertCard> MakeHostCard(std::string name,
                                         const CardLimits& limits,
                                         HostCardOrders& orders);

}  // namespace deltafin::testing
