// tests/testing/recorded_reply.h
//
// An answer that is kept instead of sent. Thread-safe.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/mutex.h"
#include "common/net/http_message.h"

namespace deltafin::testing {

class RecordedReply final : public HttpReply {
 public:
  void Send(int status, HttpHeaders headers, std::string body) override {
    Record(status, std::move(headers), std::move(body), /*is_ended=*/true);
  }
  void Begin(int status, HttpHeaders headers) override {
    Record(status, std::move(headers), "", /*is_ended=*/false);
  }
  bool Write(std::string data) override {
    MutexLock lock(mutex_);
    if (is_gone_ || is_ended_) return false;
    body_ += data;
    changed_.NotifyAll();
    return true;
  }
  void End() override {
    MutexLock lock(mutex_);
    is_ended_ = true;
    changed_.NotifyAll();
  }
  void OnGone(std::function<void()> f) override {
    {
      MutexLock lock(mutex_);
      if (!is_gone_) {
        on_gone_ = std::move(f);
        return;
      }
    }
    f();
  }

  // The client goes.
  void GoAway() {
    std::function<void()> gone;
    {
      MutexLock lock(mutex_);
      if (is_gone_ || is_ended_) return;
      is_gone_ = true;
      gone = std::move(on_gone_);
    }
    if (gone) gone();
  }

  int status() const {  // 0: none yet
    MutexLock lock(mutex_);
    return status_;
  }
  std::string body() const {
    MutexLock lock(mutex_);
    return body_;
  }
  bool is_ended() const {
    MutexLock lock(mutex_);
    return is_ended_;
  }
  std::string header(std::string_view name) const {
    MutexLock lock(mutex_);
    for (const auto& [key, value] : headers_) {
      if (key == name) return value;
    }
    return "";
  }

  // Blocks until `accept` says true of the body, or the answer has ended.
  void Await(const std::function<bool(const std::string&)>& accept) const {
    MutexLock lock(mutex_);
    while (!is_ended_ && !accept(body_)) changed_.Wait(mutex_);
  }
  void AwaitEnd() const {
    Await([](const std::string&) { return false; });
  }

 private:
  void Record(int status, HttpHeaders headers, std::string body,
              bool is_ended) {
    MutexLock lock(mutex_);
    if (status_ != 0) return;
    status_ = status;
    headers_ = std::move(headers);
    body_ = std::move(body);
    is_ended_ = is_ended;
    changed_.NotifyAll();
  }

  mutable Mutex mutex_;
  mutable CondVar changed_;
  int status_ ABSL_GUARDED_BY(mutex_) = 0;
  HttpHeaders headers_ ABSL_GUARDED_BY(mutex_);
  std::string body_ ABSL_GUARDED_BY(mutex_);
  bool is_ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_gone_ ABSL_GUARDED_BY(mutex_) = false;
  std::function<void()> on_gone_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace deltafin::testing
