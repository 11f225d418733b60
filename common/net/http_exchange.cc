#include "common/net/http_exchange.h"

#include <utility>

#include "common/base/log.h"
#include "common/net/http_response_head.h"
#include "common/net/http_routes.h"

namespace deltafin {
namespace {

class Reply : public HttpReply {
 public:
  explicit Reply(std::shared_ptr<HttpExchange> exchange)
      : exchange_(std::move(exchange)) {}
  ~Reply() override { exchange_->Abandon(); }
  Reply(const Reply&) = delete;
  Reply& operator=(const Reply&) = delete;

  void Send(int status, HttpHeaders headers, std::string body) override {
    exchange_->Send(status, std::move(headers), std::move(body));
  }
  void Begin(int status, HttpHeaders headers) override {
    exchange_->Begin(status, std::move(headers));
  }
  bool Write(std::string data) override {
    return exchange_->Write(std::move(data));
  }
  void End() override { exchange_->End(); }
  void OnGone(std::function<void()> f) override {
    exchange_->OnGone(std::move(f));
  }

 private:
  const std::shared_ptr<HttpExchange> exchange_;
};

}  // namespace

HttpExchange::HttpExchange(const HttpAnswerTerms& terms,
                           std::function<void()> wake)
    : terms_(terms), wake_(std::move(wake)) {}

std::shared_ptr<HttpReply> HttpExchange::MakeReply(
    std::shared_ptr<HttpExchange> exchange) {
  return std::make_shared<Reply>(std::move(exchange));
}

void HttpExchange::Wake() {
  if (is_awake_ || !wake_) return;
  is_awake_ = true;
  wake_();
}

void HttpExchange::Put(std::string bytes) {
  if (output_.empty()) {
    output_ = std::move(bytes);
  } else {
    output_ += bytes;
  }
  Wake();
}

void HttpExchange::Finish(Stage stage) {
  stage_ = stage;
  Wake();
}

void HttpExchange::SendLocked(int status, HttpHeaders headers,
                              std::string body) {
  if (!AreValidHttpHeaders(headers)) {
    spdlog::error("an answer with status {} has a header that is none", status);
    status = 500;
    headers = {{"content-type", "application/json"}};
    body = HttpErrorBody(status, "internal_error",
                         "the server made an answer that it cannot send");
  }
  std::string bytes = HttpResponseHead(
      {status, HttpBodyForm::kWhole, body.size(), !terms_.keeps_alive},
      headers);
  if (!terms_.is_head && HttpStatusHasBody(status)) bytes += body;
  Put(std::move(bytes));
  Finish(Stage::kEnded);
}

void HttpExchange::Send(int status, HttpHeaders headers, std::string body) {
  std::function<void()> dropped;  // not under the lock
  MutexLock lock(mutex_);
  if (stage_ != Stage::kOpen || has_begun_) return;
  dropped = std::move(on_gone_);
  SendLocked(status, std::move(headers), std::move(body));
}

void HttpExchange::Begin(int status, HttpHeaders headers) {
  std::function<void()> dropped;
  MutexLock lock(mutex_);
  if (stage_ != Stage::kOpen || has_begun_) return;
  if (!AreValidHttpHeaders(headers)) {
    dropped = std::move(on_gone_);
    return SendLocked(status, std::move(headers), "");
  }
  has_begun_ = true;
  has_body_ = !terms_.is_head && HttpStatusHasBody(status);
  if (terms_.is_http_1_0) terms_.keeps_alive = false;
  Put(HttpResponseHead(
      {status,
       terms_.is_http_1_0 ? HttpBodyForm::kUntilClose : HttpBodyForm::kChunked,
       0, !terms_.keeps_alive},
      headers));
}

bool HttpExchange::Write(std::string data) {
  MutexLock lock(mutex_);
  if (stage_ != Stage::kOpen || !has_begun_) return false;
  if (!has_body_ || data.empty()) return true;
  if (output_.size() + num_in_flight_ + data.size() > terms_.max_unread_bytes) {
    is_awake_ = false;  // the connection may be waiting for the client
    Finish(Stage::kOverflown);
    return false;
  }
  Put(terms_.is_http_1_0 ? std::move(data) : HttpChunk(data));
  return true;
}

void HttpExchange::End() {
  std::function<void()> dropped;
  MutexLock lock(mutex_);
  if (stage_ != Stage::kOpen || !has_begun_) return;
  dropped = std::move(on_gone_);
  if (has_body_ && !terms_.is_http_1_0) Put(std::string(kLastHttpChunk));
  Finish(Stage::kEnded);
}

void HttpExchange::OnGone(std::function<void()> f) {
  {
    MutexLock lock(mutex_);
    if (stage_ == Stage::kOpen || stage_ == Stage::kOverflown) {
      std::swap(on_gone_, f);
      return;  // the earlier one is dropped after the lock
    }
    if (stage_ != Stage::kGone) return;
  }
  f();
}

void HttpExchange::Abandon() {
  std::function<void()> dropped;
  MutexLock lock(mutex_);
  if (stage_ != Stage::kOpen) return;
  dropped = std::move(on_gone_);
  if (has_begun_) return Finish(Stage::kCut);
  SendLocked(500, {{"content-type", "application/json"}},
             HttpErrorBody(500, "internal_error",
                           "the server dropped this request; see its log"));
}

HttpExchange::Output HttpExchange::TakeOutput() {
  MutexLock lock(mutex_);
  is_awake_ = false;
  num_in_flight_ += output_.size();
  return {std::exchange(output_, ""), stage_};
}

void HttpExchange::MarkSent(size_t num_bytes) {
  MutexLock lock(mutex_);
  num_in_flight_ -= num_bytes;
}

HttpExchange::Stage HttpExchange::stage() const {
  MutexLock lock(mutex_);
  return stage_;
}

bool HttpExchange::keeps_alive() const {
  MutexLock lock(mutex_);
  return terms_.keeps_alive;
}

void HttpExchange::SetLast() {
  MutexLock lock(mutex_);
  terms_.keeps_alive = false;
}

void HttpExchange::Leave() {
  std::function<void()> gone;
  std::function<void()> wake;
  {
    MutexLock lock(mutex_);
    wake = std::move(wake_);
    wake_ = nullptr;
    output_.clear();
    if (stage_ == Stage::kEnded || stage_ == Stage::kCut ||
        stage_ == Stage::kGone) {
      return;
    }
    stage_ = Stage::kGone;
    gone = std::move(on_gone_);
    on_gone_ = nullptr;
  }
  if (gone) gone();
}

}  // namespace deltafin
