// expert_node/request_gate.h
//
// Counts the requests inside the node, refuses new ones once it closes, waits
// for the old. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/time/time.h"
#include "common/base/mutex.h"

namespace deltafin {

class RequestGate {
 public:
  // Being inside, until destroyed. Move-only; the gate must outlive
  // it.
  class Pass {
   public:
    explicit Pass(RequestGate& gate) : gate_(&gate) {}
    ~Pass() { Leave(); }
    Pass(Pass&& other) noexcept : gate_(std::exchange(other.gate_, nullptr)) {}
    Pass& operator=(Pass&& other) noexcept {
      std::swap(gate_, other.gate_);
      return *this;
    }

   private:
    void Leave();
    RequestGate* gate_;
  };

  // nullopt once closed.
  std::optional<Pass> Enter();

  // Further Enter calls are refused.
  void Close();
  // Blocks until nobody is inside. False when the deadline passed first.
  bool WaitUntilEmpty(absl::Time deadline);

  int64_t num_inside() const;

 private:
  mutable Mutex mutex_;
  CondVar emptied_;
  int64_t inside_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace deltafin
