#include "bench/reader_threads.h"

namespace deltafin::bench {

ReaderThreads::ReaderThreads(int num_threads) {
  for (int t = 0; t < num_threads; ++t) {
    threads_.emplace_back([this, t] { ReaderMain(t); });
  }
}

ReaderThreads::~ReaderThreads() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
    begun_.NotifyAll();
  }
  for (std::thread& thread : threads_) thread.join();
}

void ReaderThreads::Run(int num_experts, const Read& read) {
  MutexLock lock(mutex_);
  read_ = &read;
  next_expert_ = 0;
  num_experts_ = num_left_ = num_experts;
  begun_.NotifyAll();
  while (num_left_ > 0) ended_.Wait(mutex_);
}

void ReaderThreads::ReaderMain(int thread) {
  MutexLock lock(mutex_);
  while (true) {
    while (!stop_ && next_expert_ == num_experts_) begun_.Wait(mutex_);
    if (stop_) return;
    const int expert = next_expert_++;
    const Read& read = *read_;
    mutex_.Unlock();
    read(expert, thread);
    mutex_.Lock();
    if (--num_left_ == 0) ended_.NotifyOne();
  }
}

}  // namespace deltafin::bench
