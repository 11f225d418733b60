#include "coordinator/frontend/server_sent_events.h"

#include <utility>

#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

constexpr char kComment[] = ": waiting\n\n";

}  // namespace

std::string EventText(const ServerEvent& event, std::optional<uint64_t> id) {
  std::string text;
  if (id) text += fmt::format("id: {}\n", *id);
  if (!event.name.empty()) text += fmt::format("event: {}\n", event.name);
  return text + fmt::format("data: {}\n\n", event.data);
}

EventStream::EventStream(EventStreamOptions options, const Clock& clock,
                         std::function<void()> on_abandoned)
    : options_(std::move(options)),
      clock_(clock),
      on_abandoned_(std::move(on_abandoned)) {}

absl::Status EventStream::Attach(std::shared_ptr<HttpReply> reply,
                                 HttpHeaders headers, uint64_t from) {
  headers.emplace_back("Content-Type", "text/event-stream; charset=utf-8");
  headers.emplace_back("Cache-Control", "no-cache");
  headers.emplace_back("X-Accel-Buffering", "no");  // of proxies
  int reader = 0;
  {
    MutexLock lock(mutex_);
    const uint64_t oldest = num_events_ - kept_.size() + 1;
    if (from < oldest || from > num_events_ + 1) {
      return absl::OutOfRangeError(
          fmt::format("event {} is not there: the stream has {} to {}", from,
                      oldest, num_events_));
    }
    reader = ++num_readers_;
    if (reply_ != nullptr) reply_->End();
    reply_ = reply;
    reply_->Begin(200, std::move(headers));
    std::string text = kComment;
    for (uint64_t event = from; event <= num_events_; ++event) {
      text += kept_[event - oldest];
    }
    if (Write(std::move(text)) && is_ended_) {
      std::exchange(reply_, nullptr)->End();
      away_since_ = clock_.Elapsed();
    }
  }
  reply->OnGone([weak = weak_from_this(), reader] {
    if (const auto self = weak.lock()) self->OnGone(reader);
  });
  return absl::OkStatus();
}

bool EventStream::Write(std::string text) {
  if (reply_ == nullptr) return false;
  last_written_ = clock_.Elapsed();
  if (reply_->Write(std::move(text))) return true;
  LoseReader();
  return false;
}

void EventStream::LoseReader() {
  reply_.reset();
  away_since_ = clock_.Elapsed();
}

void EventStream::Keep(std::string text) {
  kept_bytes_ += text.size();
  kept_.push_back(std::move(text));
  while (kept_bytes_ > options_.max_kept_bytes) {
    kept_bytes_ -= kept_.front().size();
    kept_.pop_front();
  }
}

bool EventStream::Send(std::span<const ServerEvent> events) {
  MutexLock lock(mutex_);
  if (is_ended_ || is_abandoned_) return false;
  std::string all;
  for (const ServerEvent& event : events) {
    ++num_events_;
    if (options_.resumable > absl::ZeroDuration()) {
      std::string text = EventText(event, num_events_);
      all += text;
      Keep(std::move(text));
    } else {
      all += EventText(event);
    }
  }
  const bool is_read = all.empty() || Write(std::move(all));
  return is_read || options_.resumable > absl::ZeroDuration();
}

void EventStream::End() {
  MutexLock lock(mutex_);
  is_ended_ = true;
  if (reply_ == nullptr) return;
  std::exchange(reply_, nullptr)->End();
  away_since_ = clock_.Elapsed();
}

void EventStream::Stop() {
  {
    MutexLock lock(mutex_);
    if (is_ended_ || is_abandoned_) return;
  }
  on_abandoned_();
}

bool EventStream::IsAwayTooLong() const {
  return reply_ == nullptr && num_readers_ > 0 &&
         clock_.Elapsed() - away_since_ >= options_.resumable;
}

bool EventStream::is_resumable() const {
  MutexLock lock(mutex_);
  return options_.resumable > absl::ZeroDuration() && !is_abandoned_ &&
         !IsAwayTooLong();
}

void EventStream::OnGone(int reader) {
  {
    MutexLock lock(mutex_);
    if (reader != num_readers_ || reply_ == nullptr) return;
    LoseReader();
  }
  OnPulse();
}

std::string EventStream::KeepAliveText() const {
  // Numbered events are a client's place in the stream; this is none.
  return options_.empty_event ? EventText(*options_.empty_event) : kComment;
}

bool EventStream::OnPulse() {
  {
    MutexLock lock(mutex_);
    if (is_ended_ || is_abandoned_) return false;
    if (!IsAwayTooLong()) {
      if (reply_ != nullptr &&
          clock_.Elapsed() - last_written_ >= options_.keep_alive) {
        Write(KeepAliveText());
      }
      return true;
    }
    is_abandoned_ = true;
  }
  on_abandoned_();
  return false;
}

}  // namespace deltafin
