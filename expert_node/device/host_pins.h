// expert_node/device/host_pins.h
//
// Pins the RAM tier's memory, part by part as it is used, so that cards copy
// from it by themselves; lets go of what the tier gives back to the system. The
// thread that pins lives as long as the object. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "expert_node/storage/tiered_store.h"

namespace deltafin {

// How memory is pinned, for all cards. `pin` takes whole pages, and what it
// took is what `unpin` is given; thread-safe. Empty: it cannot be done.
struct HostPinner {
  std::function<absl::Status(std::span<uint8_t> part)> pin;
  std::function<void(std::span<uint8_t> part)> unpin;
};

class HostPins : public TierMemoryHolder {
 public:
  // Parts of `store`'s memory of about `part_bytes`: a multiple of slot_bytes
  // where slots are whole pages, else of pages. `store` must outlive it.
  HostPins(TieredStore& store, size_t slot_bytes, HostPinner pinner,
           size_t part_bytes);
  // Unpins all. REQUIRES: no copy goes on.
  ~HostPins() override;

  // A card may read the bytes of a leased slice by itself. False: not now;
  // asks that they be pinned, if that can be done. A slice that lies in two
  // parts is never pinned.
  bool Covers(const uint8_t* bytes, size_t size);

  std::span<uint8_t> LetGo(std::span<uint8_t> tail) override;

  uint64_t pinned_bytes() const;
  // Blocks until nothing that was asked for waits to be pinned.
  void WaitUntilIdle();

 private:
  enum class Part : uint8_t { kFree, kAsked, kPinned };

  std::span<uint8_t> BytesOf(size_t part) const;
  void Loop();

  TieredStore& store_;
  const std::span<uint8_t> memory_;
  const size_t part_bytes_;
  const HostPinner pinner_;
  mutable Mutex mutex_;
  std::vector<Part> parts_ ABSL_GUARDED_BY(mutex_);
  std::deque<size_t> asked_ ABSL_GUARDED_BY(mutex_);  // not pinned yet
  bool is_pinning_ ABSL_GUARDED_BY(mutex_) = false;   // asked_.front()
  bool has_failed_ ABSL_GUARDED_BY(mutex_) = false;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t pinned_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  CondVar changed_;
  std::thread thread_;
};

}  // namespace deltafin
