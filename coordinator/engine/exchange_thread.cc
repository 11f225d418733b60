#include "coordinator/engine/exchange_thread.h"

#include <pthread.h>

#include <utility>

#include "absl/time/clock.h"
#include "common/base/check.h"
#include "kernels/kernel_registry.h"

namespace deltafin {
namespace {

// How often Finish asks `stopped`.
constexpr absl::Duration kPollInterval = absl::Milliseconds(5);

}  // namespace

ExchangeThread::ExchangeThread() : thread_([this] { Run(); }) {
  pthread_setname_np(thread_.native_handle(), "exchange");
}

ExchangeThread::~ExchangeThread() {
  if (busy_) Finish([] { return true; }).IgnoreError();
  {
    MutexLock lock(mutex_);
    exiting_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void ExchangeThread::Begin(Call call) {
  DCHECK(!busy_);
  busy_ = true;
  stop_call_ = false;
  MutexLock lock(mutex_);
  call_ = std::move(call);
  done_ = false;
  changed_.NotifyAll();
}

absl::Status ExchangeThread::Finish(const std::function<bool()>& stopped) {
  DCHECK(busy_);
  busy_ = false;
  mutex_.Lock();
  while (!done_) {
    mutex_.Unlock();
    if (stopped()) stop_call_ = true;
    mutex_.Lock();
    if (!done_) changed_.WaitUntil(mutex_, absl::Now() + kPollInterval);
  }
  absl::Status result = std::move(result_);
  mutex_.Unlock();
  return result;
}

void ExchangeThread::Run() {
  SetContractFloatingPointMode();
  mutex_.Lock();
  while (!exiting_) {
    if (!call_) {
      changed_.Wait(mutex_);
      continue;
    }
    const Call call = std::exchange(call_, nullptr);
    mutex_.Unlock();
    absl::Status result = call([this] { return stop_call_.load(); });
    mutex_.Lock();
    result_ = std::move(result);
    done_ = true;
    changed_.NotifyAll();
  }
  mutex_.Unlock();
}

}  // namespace deltafin
