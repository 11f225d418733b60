// bench/measurement.h
//
// What the memory-bound benches share: pinned threads, memory beyond the last
// cache, the read that sets the roof, medians.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace deltafin::bench {

// Anonymous memory on huge pages where the system grants them.
class HugeBuffer {
 public:
  explicit HugeBuffer(size_t size);
  ~HugeBuffer();
  HugeBuffer(const HugeBuffer&) = delete;
  HugeBuffer& operator=(const HugeBuffer&) = delete;

  uint8_t* data() const { return data_; }
  size_t size() const { return size_; }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  void* mapping_;
  size_t mapped_;
  uint8_t* data_;  // on 2 MiB
  size_t size_;
};

struct Sample {
  double seconds;    // of the slowest thread
  bool undisturbed;  // each thread had its core for 98.5 % of the time
};

// Threads that live as long as the bench, one to a core, in the real-time class
// during a sample where that is permitted.
class PinnedWorkers {
 public:
  explicit PinnedWorkers(int max_threads);
  ~PinnedWorkers();
  PinnedWorkers(const PinnedWorkers&) = delete;
  PinnedWorkers& operator=(const PinnedWorkers&) = delete;

  // Runs work(0) .. work(num_threads - 1) at once.
  Sample Run(int num_threads, const std::function<void(int)>& work);

 private:
  struct Shared;
  std::unique_ptr<Shared> shared_;
};

// Reads `size` bytes front to back, as fast as one thread can. size % 256 == 0,
// 64-byte aligned. Returns something that depends on all of them.
uint64_t StreamingRead(const uint8_t* bytes, size_t size);

// Keeps a result alive.
void Consume(uint64_t value);

double Median(std::vector<double> values);

}  // namespace deltafin::bench
