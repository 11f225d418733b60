// tests/testing/host_card.h
//
// A card that is none: an ExpertCard in ordinary memory, on the scalar kernel.
// It does what it was told as late as it may, and copies before runs, as a real
// card could at worst: a buffer or a slot that is used again too soon gives
// wrong sums. It copies from its own buffers and from pinned memory alone,
// refuses memory and fails calls on order.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>

#include "common/base/mutex.h"
#include "expert_node/device/expert_card.h"
#include "expert_node/device/host_pins.h"

namespace deltafin::testing {

// Memory that was pinned, for cards that are none. Thread-safe.
class PinnedParts {
 public:
  // Must outlive it. From the `refused_from`th on (from 0) pins are refused.
  HostPinner pinner(int refused_from = 1 << 30);
  // All of the bytes lie in one part.
  bool Covers(const uint8_t* bytes, size_t size) const;
  size_t num_parts() const;
  int num_pins() const { return num_pins_; }

 private:
  mutable Mutex mutex_;
  std::map<const uint8_t*, size_t> parts_ ABSL_GUARDED_BY(mutex_);
  std::atomic<int> num_pins_{0};
};

// What a test tells its card, and what it sees of it; outlives the card.
// Thread-safe after the card is opened.
struct HostCardOrders {
  uint64_t memory_bytes = uint64_t{1}
                          << 30;  // that FreeBytes tells of at first
  uint64_t allocatable_bytes = ~uint64_t{0};  // less than it tells
  // What it may copy from besides its own buffers; outlives the card.
  const PinnedParts* pinned = nullptr;
  // That call (from 0, of all but FreeBytes and Allocate) and all after it
  // fail.
  std::atomic<int> fail_from{1 << 30};
  std::atomic<int> num_calls{0};
  std::atomic<int> num_copies{0};
  std::atomic<int> num_direct_copies{0};  // of them, from pinned memory
  std::atomic<int> num_runs{0};
};

std::unique_ptr<ExpertCard> MakeHostCard(std::string name,
                                         const CardLimits& limits,
                                         HostCardOrders& orders);

}  // namespace deltafin::testing
