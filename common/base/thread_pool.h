// common/base/thread_pool.h
//
// A fixed set of pinned workers for compute. Threads are in the numerics
// contract's floating-point mode.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"

namespace deltafin {

class ThreadPool {
 public:
  // num_threads >= 1 counts the calling thread, which works too. `name`
  // prefixes the threads' names.
  ThreadPool(int num_threads, const char* name);
  ~ThreadPool();  // joins
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const;

  // Runs body(task, worker) for task in [0, num_tasks), worker in [0,
  // num_threads); returns when all are done. Tasks are taken in ascending order
  // from one counter. Called from one thread at a time; not re-entrant.
  void ParallelFor(int64_t num_tasks,
                   absl::FunctionRef<void(int64_t task, int worker)> body);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace deltafin
