// spine_node/cpu/stopwatch.h
//
// Adds the time of a scope to a counter of seconds.
#pragma once

#include <chrono>

namespace deltafin {

class ScopedTimer {
 public:
  explicit ScopedTimer(double& seconds)
      : seconds_(seconds), start_(std::chrono::steady_clock::now()) {}
  ~ScopedTimer() {
    const std::chrono::duration<double> elapsed =
        std::chrono::steady_clock::now() - start_;
    seconds_ += elapsed.count();
  }
  ScopedTimer(const ScopedTimer&) = delete;
  ScopedTimer& operator=(const ScopedTimer&) = delete;

 private:
  double& seconds_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace deltafin
