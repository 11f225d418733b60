// tests/unit/coordinator/frontend/recorded_reply.h
//
// An HTTP answer that a test looks at. Thread-safe.
#pragma once

#include <string>
#include <utility>

#include "common/base/mutex.h"
#include "common/net/http_message.h"

namespace deltafin::testing {

class RecordedReply : public HttpReply {
 public:
  void Send(int status, HttpHeaders headers, std::string body) override {
    MutexLock lock(mutex_);
    Take(status, std::move(headers));
    body_ = std::move(body);
    ended_ = true;
    changed_.NotifyAll();
  }
  void Begin(int status, HttpHeaders headers) override {
    MutexLock lock(mutex_);
    Take(status, std::move(headers));
    changed_.NotifyAll();
  }
  bool Write(std::string data) override {
    MutexLock lock(mutex_);
    if (gone_) return false;
    body_ += data;
    changed_.NotifyAll();
    return true;
  }
  void End() override {
    MutexLock lock(mutex_);
    ended_ = true;
    changed_.NotifyAll();
  }
  void OnGone(std::function<void()>) override {}

  // The client hangs up.
  void Go() {
    MutexLock lock(mutex_);
    gone_ = true;
  }
  // Waits until the body holds `text` so many times.
  std::string AwaitBody(const std::string& text, int times = 1) {
    MutexLock lock(mutex_);
    while (Count(text) < times) changed_.Wait(mutex_);
    return body_;
  }
  void AwaitEnd() {
    MutexLock lock(mutex_);
    while (!ended_) changed_.Wait(mutex_);
  }

  int status() const {
    MutexLock lock(mutex_);
    return status_;
  }
  std::string body() const {
    MutexLock lock(mutex_);
    return body_;
  }
  // Empty: there is none.
  std::string header(const std::string& name) const {
    MutexLock lock(mutex_);
    for (const auto& [key, value] : headers_) {
      if (key == name) return value;
    }
    return "";
  }

 private:
  void Take(int status, HttpHeaders headers)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    status_ = status;
    headers_ = std::move(headers);
  }
  int Count(const std::string& text) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    int count = 0;
    for (size_t at = body_.find(text); at != std::string::npos;
         at = body_.find(text, at + text.size())) {
      ++count;
    }
    return count;
  }

  mutable Mutex mutex_;
  CondVar changed_;
  int status_ ABSL_GUARDED_BY(mutex_) = 0;
  HttpHeaders headers_ ABSL_GUARDED_BY(mutex_);
  std::string body_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool gone_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace deltafin::testing
