#include "bench/measurement.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace deltafin::bench {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr double kUndisturbedShare = 0.985;

double Seconds(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

void PinToCore(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

// Fails silently without the permission: samples are then only pinned.
void SetRealTime(bool on) {
  sched_param param{};
  param.sched_priority = on ? 10 : 0;
  pthread_setschedparam(pthread_self(), on ? SCHED_FIFO : SCHED_OTHER, &param);
}

// The roof must be as good as a program can get, so it prefetches where the
// kernels do (kernels/vector/tile_prefetch.h): 16 lines ahead.
bool PrefetchPays() {
#if defined(__x86_64__)
  return __builtin_cpu_is("intel");
#else
  return false;
#endif
}

template <bool kPrefetch>
uint64_t ReadLines(const uint8_t* bytes, size_t size) {
  using Line = uint64_t __attribute__((vector_size(16)));
  constexpr size_t kStep = 4 * 64;
  constexpr size_t kAhead = 16 * 64;
  Line sums[4] = {};
  for (const uint8_t* at = bytes; at < bytes + size; at += kStep) {
    if (kPrefetch) {
      for (size_t k = 0; k < kStep; k += 64)
        __builtin_prefetch(at + kAhead + k);
    }
    const auto* p = reinterpret_cast<const Line*>(at);
    for (int k = 0; k < 16; ++k) sums[k % 4] ^= p[k];
  }
  const Line all = sums[0] ^ sums[1] ^ sums[2] ^ sums[3];
  return all[0] ^ all[1];
}

}  // namespace

HugeBuffer::HugeBuffer(size_t size) : size_(size) {
  mapped_ = (size + kHugePage - 1) / kHugePage * kHugePage + kHugePage;
  mapping_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping_ == MAP_FAILED) {
    std::perror("mmap");
    std::exit(1);
  }
  const auto at = reinterpret_cast<uintptr_t>(mapping_);
  data_ =
      reinterpret_cast<uint8_t*>((at + kHugePage - 1) / kHugePage * kHugePage);
  madvise(data_, mapped_ - kHugePage, MADV_HUGEPAGE);
}

HugeBuffer::~HugeBuffer() { munmap(mapping_, mapped_); }

struct PinnedWorkers::Shared {
  std::vector<std::thread> threads;
  std::atomic<int> generation{0};
  std::atomic<int> arrived{0};
  std::atomic<int> left{0};
  int active = 0;
  const std::function<void(int)>* work = nullptr;
  bool stop = false;
  std::vector<double> wall;
  std::vector<double> cpu;

  void Loop(int index) {
    PinToCore(index);
    for (int seen = 0;;) {
      generation.wait(seen);
      seen = generation.load();
      if (stop) return;
      if (index < active) Measure(index);
      left.fetch_sub(1);
      left.notify_all();
    }
  }

  void Measure(int index) {
    SetRealTime(true);
    arrived.fetch_add(1);
    while (arrived.load() < active) {
    }
    const double wall_start = Seconds(CLOCK_MONOTONIC);
    const double cpu_start = Seconds(CLOCK_THREAD_CPUTIME_ID);
    (*work)(index);
    cpu[index] = Seconds(CLOCK_THREAD_CPUTIME_ID) - cpu_start;
    wall[index] = Seconds(CLOCK_MONOTONIC) - wall_start;
    SetRealTime(false);
  }
};

PinnedWorkers::PinnedWorkers(int max_threads)
    : shared_(std::make_unique<Shared>()) {
  shared_->wall.resize(max_threads);
  shared_->cpu.resize(max_threads);
  for (int i = 0; i < max_threads; ++i) {
    shared_->threads.emplace_back([this, i] { shared_->Loop(i); });
  }
}

PinnedWorkers::~PinnedWorkers() {
  shared_->stop = true;
  shared_->generation.fetch_add(1);
  shared_->generation.notify_all();
  for (std::thread& thread : shared_->threads) thread.join();
}

Sample PinnedWorkers::Run(int num_threads,
                          const std::function<void(int)>& work) {
  Shared& s = *shared_;
  s.active = num_threads;
  s.work = &work;
  s.arrived = 0;
  s.left = static_cast<int>(s.threads.size());
  s.generation.fetch_add(1);
  s.generation.notify_all();
  for (int left = s.left.load(); left > 0; left = s.left.load()) {
    s.left.wait(left);
  }
  Sample sample = {0, true};
  for (int i = 0; i < num_threads; ++i) {
    sample.seconds = std::max(sample.seconds, s.wall[i]);
    sample.undisturbed &= s.cpu[i] > kUndisturbedShare * s.wall[i];
  }
  return sample;
}

uint64_t StreamingRead(const uint8_t* bytes, size_t size) {
  return PrefetchPays() ? ReadLines<true>(bytes, size)
                        : ReadLines<false>(bytes, size);
}

void Consume(uint64_t value) {
  static std::atomic<uint64_t> sink;
  sink.fetch_xor(value);
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + values.size() / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace deltafin::bench
