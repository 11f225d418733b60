// coordinator/frontend/stream_pulse.h
//
// A thread that looks after answers which are under way, so that their clients
// hear something while the model says nothing.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "common/base/mutex.h"

namespace deltafin {

class Pulsed {
 public:
  virtual ~Pulsed() = default;
  // Now and then. Must not block. False: not any more.
  virtual bool OnPulse() = 0;
};

// Thread-safe.
class StreamPulse {
 public:
  // `interval`: of the machine's clock; what is looked after may have another.
  explicit StreamPulse(absl::Duration interval);
  // Waits for OnPulse calls to return.
  ~StreamPulse();
  StreamPulse(const StreamPulse&) = delete;
  StreamPulse& operator=(const StreamPulse&) = delete;

  // Until it says false or nobody else owns it.
  void Add(std::weak_ptr<Pulsed> pulsed);

 private:
  void Run();
  static void Pulse(std::vector<std::weak_ptr<Pulsed>>& all);

  const absl::Duration interval_;
  Mutex mutex_;
  CondVar changed_;
  bool is_stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::weak_ptr<Pulsed>> added_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace deltafin
