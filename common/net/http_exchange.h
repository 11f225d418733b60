// common/net/http_exchange.h
//
// One request's answer between the handler, which gives it, and the connection,
// which sends it: the bytes that wait, and what becomes of them. Thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "common/base/mutex.h"
#include "common/net/http_message.h"

namespace deltafin {

// What of the request shapes its answer.
struct HttpAnswerTerms {
  bool is_head = false;
  bool is_http_1_0 = false;
  bool keeps_alive = false;
  size_t max_unread_bytes = 0;
};

class HttpExchange {
 public:
  enum class Stage {
    kOpen,       // more may come
    kEnded,      // all that will come waits or was taken
    kCut,        // the same, but the stream has no end
    kOverflown,  // the client left too much unread
    kGone,
  };

  // `wake` is called when there is something to take, once until TakeOutput;
  // on any thread and under the lock, so it must only leave word.
  HttpExchange(const HttpAnswerTerms& terms, std::function<void()> wake);

  // The handler's end; when its last copy goes, Abandon. Call it once.
  static std::shared_ptr<HttpReply> MakeReply(
      std::shared_ptr<HttpExchange> exchange);

  // For the handler: see HttpReply.
  void Send(int status, HttpHeaders headers, std::string body);
  void Begin(int status, HttpHeaders headers);
  bool Write(std::string data);
  void End();
  void OnGone(std::function<void()> f);
  void Abandon();

  // For the connection. What waits to be sent, which counts as unread until
  // MarkSent, and whether more will come.
  struct Output {
    std::string bytes;
    Stage stage;
  };
  Output TakeOutput();
  void MarkSent(size_t num_bytes);
  Stage stage() const;
  // Another request may follow; final once kEnded.
  bool keeps_alive() const;
  // No other will.
  void SetLast();
  // The client has gone, or the answer is over. `wake` is not called after
  // this.
  void Leave();

 private:
  void Put(std::string bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Finish(Stage stage) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Wake() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendLocked(int status, HttpHeaders headers, std::string body)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  HttpAnswerTerms terms_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> wake_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> on_gone_ ABSL_GUARDED_BY(mutex_);
  Stage stage_ ABSL_GUARDED_BY(mutex_) = Stage::kOpen;
  bool has_begun_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_body_ ABSL_GUARDED_BY(mutex_) = true;  // of a stream that has begun
  bool is_awake_ ABSL_GUARDED_BY(mutex_) = false;
  std::string output_ ABSL_GUARDED_BY(mutex_);
  size_t num_in_flight_ ABSL_GUARDED_BY(mutex_) = 0;  // taken, not sent
};

}  // namespace deltafin
