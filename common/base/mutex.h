// common/base/mutex.h
//
// std::mutex with thread-safety annotations. (Debian's absl::Mutex is not
// instrumented, so TSan reports false races with it.)
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"

namespace deltafin {

class ABSL_LOCKABLE Mutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex)
      : mutex_(mutex) {
    mutex_.Lock();
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

class CondVar {
 public:
  // Callers loop on their predicate: wake-ups may be spurious.
  void Wait(Mutex& mutex) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    cond_.wait(lock);
    lock.release();
  }
  // Returns false when the deadline passed first.
  bool WaitUntil(Mutex& mutex, absl::Time deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    const bool signalled =
        deadline == absl::InfiniteFuture()
            ? (cond_.wait(lock), true)
            : cond_.wait_until(lock, absl::ToChronoTime(deadline)) ==
                  std::cv_status::no_timeout;
    lock.release();
    return signalled;
  }
  void NotifyOne() { cond_.notify_one(); }
  void NotifyAll() { cond_.notify_all(); }

 private:
  std::condition_variable cond_;
};

}  // namespace deltafin
