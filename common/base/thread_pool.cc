#include "common/base/thread_pool.h"

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/base/thread_affinity.h"
#include "kernels/kernel_registry.h"

namespace deltafin {
namespace {

using Body = absl::FunctionRef<void(int64_t task, int worker)>;

// How long a thread polls before it sleeps: longer than the serial stretches
// between two loops of a layer, shorter than a scheduler tick.
constexpr std::chrono::microseconds kSpinTime{10};

void Relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Polls `ready` for kSpinTime; returns its last answer.
template <typename Ready>
bool SpinUntil(Ready ready) {
  const auto deadline = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int i = 0; i < 16; ++i) {
      if (ready()) return true;
      Relax();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return ready();
}

}  // namespace

// A loop is open from its start until the caller has found the counter
// exhausted. Workers enter an open loop by counting themselves into the gate;
// the caller closes the gate and waits only for those inside, so a worker that
// the system did not schedule in time delays nobody.
struct ThreadPool::Impl {
  // Bits of the gate: number of the loop (upper half), open, workers inside.
  static constexpr uint64_t kOpen = uint64_t{1} << 31;
  static constexpr uint64_t kInside = kOpen - 1;
  static uint64_t LoopOf(uint64_t gate) { return gate >> 32; }

  std::vector<std::thread> workers;

  // The loop; written while the gate is closed and empty.
  const Body* body = nullptr;
  int64_t num_tasks = 0;

  alignas(64) std::atomic<int64_t> next_task{0};
  alignas(64) std::atomic<uint64_t> gate{0};

  alignas(64) std::atomic<int> sleeping_workers{0};
  std::atomic<bool> caller_sleeps{false};
  std::atomic<bool> stop{false};
  Mutex mutex;  // orders falling asleep and waking; guards no data
  CondVar work_arrived;
  CondVar gate_emptied;

  void RunTasks(int worker);
  bool Enter(uint64_t& last_loop);
  void Leave();
  void WorkerMain(int worker);
  void WaitForWork(uint64_t last_loop);
  void WaitUntilEmpty();
};

void ThreadPool::Impl::RunTasks(int worker) {
  while (true) {
    const int64_t task = next_task.fetch_add(1, std::memory_order_relaxed);
    if (task >= num_tasks) return;
    (*body)(task, worker);
  }
}

// Counts the calling worker into an open loop it has not seen.
bool ThreadPool::Impl::Enter(uint64_t& last_loop) {
  uint64_t seen = gate.load(std::memory_order_relaxed);
  while ((seen & kOpen) != 0 && LoopOf(seen) != last_loop) {
    if (gate.compare_exchange_weak(seen, seen + 1, std::memory_order_acquire,
                                   std::memory_order_relaxed)) {
      last_loop = LoopOf(seen);
      return true;
    }
  }
  return false;
}

void ThreadPool::Impl::Leave() {
  const uint64_t before = gate.fetch_sub(1);
  const bool last = (before & kInside) == 1 && (before & kOpen) == 0;
  if (last && caller_sleeps.load()) {
    MutexLock lock(mutex);
    gate_emptied.NotifyOne();
  }
}

void ThreadPool::Impl::WaitForWork(uint64_t last_loop) {
  const auto ready = [this, last_loop] {
    const uint64_t seen = gate.load();
    return ((seen & kOpen) != 0 && LoopOf(seen) != last_loop) || stop.load();
  };
  if (SpinUntil(ready)) return;
  MutexLock lock(mutex);
  sleeping_workers.fetch_add(1);
  while (!ready()) work_arrived.Wait(mutex);
  sleeping_workers.fetch_sub(1);
}

void ThreadPool::Impl::WorkerMain(int worker) {
  uint64_t last_loop = 0;
  while (!stop.load()) {
    if (Enter(last_loop)) {
      RunTasks(worker);
      Leave();
    } else {
      WaitForWork(last_loop);
    }
  }
}

// The caller's side: closes the gate, then waits for the workers inside.
void ThreadPool::Impl::WaitUntilEmpty() {
  gate.fetch_and(~kOpen);
  const auto empty = [this] { return (gate.load() & kInside) == 0; };
  if (SpinUntil(empty)) return;
  caller_sleeps.store(true);
  {
    MutexLock lock(mutex);
    while (!empty()) gate_emptied.Wait(mutex);
  }
  caller_sleeps.store(false);
}

ThreadPool::ThreadPool(int num_threads, const char* name)
    : impl_(std::make_unique<Impl>()) {
  CHECK(num_threads >= 1);
  const std::vector<int> cpus = AllowedCpus();
  // With more threads than CPUs the system's own balancing is better.
  const bool pin = num_threads <= static_cast<int>(cpus.size());
  for (int worker = 1; worker < num_threads; ++worker) {
    impl_->workers.emplace_back([this, worker, pin,
                                 cpu = cpus[worker % cpus.size()],
                                 thread_name = name + std::to_string(worker)] {
      SetThreadName(thread_name);
      if (pin) PinThreadToCpu(cpu);
      SetContractFloatingPointMode();
      impl_->WorkerMain(worker);
    });
  }
}

ThreadPool::~ThreadPool() {
  impl_->stop.store(true);
  {
    MutexLock lock(impl_->mutex);
    impl_->work_arrived.NotifyAll();
  }
  for (std::thread& worker : impl_->workers) worker.join();
}

int ThreadPool::num_threads() const {
  return static_cast<int>(impl_->workers.size()) + 1;
}

void ThreadPool::ParallelFor(int64_t num_tasks, Body body) {
  SetContractFloatingPointMode();
  if (impl_->workers.empty() || num_tasks <= 1) {
    for (int64_t task = 0; task < num_tasks; ++task) body(task, 0);
    return;
  }
  Impl& impl = *impl_;
  impl.body = &body;
  impl.num_tasks = num_tasks;
  impl.next_task.store(0, std::memory_order_relaxed);
  const uint64_t loop = Impl::LoopOf(impl.gate.load()) + 1;
  impl.gate.store(loop << 32 | Impl::kOpen);
  if (impl.sleeping_workers.load() > 0) {
    MutexLock lock(impl.mutex);
    impl.work_arrived.NotifyAll();
  }
  impl.RunTasks(0);
  impl.WaitUntilEmpty();
}

}  // namespace deltafin
