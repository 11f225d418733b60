// bench/reader_threads.h
//
// Threads that read a layer's experts and then wait for the next layer, as the
// readers of a node's tier do: what starting threads costs is not measured.
#pragma once

#include <functional>
#include <thread>
#include <vector>

#include "common/base/mutex.h"

namespace deltafin::bench {

class ReaderThreads {
 public:
  using Read = std::function<void(int expert, int thread)>;

  explicit ReaderThreads(int num_threads);
  ~ReaderThreads();
  ReaderThreads(const ReaderThreads&) = delete;
  ReaderThreads& operator=(const ReaderThreads&) = delete;

  // Runs `read` for experts 0 .. num_experts - 1, whoever is free taking the
  // next; returns when all are done. By one thread at a time.
  void Run(int num_experts, const Read& read);

 private:
  void ReaderMain(int thread);

  Mutex mutex_;
  CondVar begun_;
  CondVar ended_;
  const Read* read_ ABSL_GUARDED_BY(mutex_) = nullptr;
  int next_expert_ ABSL_GUARDED_BY(mutex_) = 0;
  int num_experts_ ABSL_GUARDED_BY(mutex_) = 0;
  int num_left_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace deltafin::bench
