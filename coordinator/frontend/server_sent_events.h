// coordinator/frontend/server_sent_events.h
//
// An answer as server-sent events: what a client has not fetched when its
// connection drops can be fetched by another one.
// Source: https://html.spec.whatwg.org/multipage/server-sent-events.html
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/net/http_message.h"
#include "coordinator/frontend/stream_pulse.h"

namespace deltafin {

struct ServerEvent {
  std::string name;  // empty: a message
  std::string data;  // without line ends
};

// As it is sent; with `id` a client can ask for what came after it.
std::string EventText(const ServerEvent& event,
                      std::optional<uint64_t> id = std::nullopt);

struct EventStreamOptions {
  // Silence after which the client is told that the stream lives.
  absl::Duration keep_alive = absl::Seconds(10);
  // Says so, instead of a comment.
  std::optional<ServerEvent> empty_event;
  // How long a client may be away, from its going or the stream's end on. Zero:
  // the first one is the last one, and events carry no ids.
  absl::Duration resumable;
  // Of events kept for resuming; older ones are dropped.
  size_t max_kept_bytes = size_t{4} << 20;
};

// Thread-safe; no call blocks.
class EventStream final : public Pulsed,
                          public std::enable_shared_from_this<EventStream> {
 public:
  // `clock` must outlive this. `on_abandoned` is called before the end, if
  // nobody reads any more or Stop says so; it may come once for each.
  EventStream(EventStreamOptions options, const Clock& clock,
              std::function<void()> on_abandoned);

  // Sends headers, a comment, and the events from number `from` on (the first
  // is 1) to a client, instead of the one before. Errors, with nothing sent:
  // OUT_OF_RANGE: they are not kept any more, or not there yet.
  absl::Status Attach(std::shared_ptr<HttpReply> reply, HttpHeaders headers,
                      uint64_t from);

  // False: nobody reads any more, nor will.
  bool Send(std::span<const ServerEvent> events);
  void End();

  // Nobody wants the rest: whoever fills the stream is told, and ends it.
  void Stop();

  // Whether a client may still come.
  bool is_resumable() const;

  // Keep-alives, and the end of waiting for a client.
  bool OnPulse() override;

 private:
  bool IsAwayTooLong() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Write(std::string text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Keep(std::string text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LoseReader() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string KeepAliveText() const;
  void OnGone(int reader);

  const EventStreamOptions options_;
  const Clock& clock_;
  const std::function<void()> on_abandoned_;
  mutable Mutex mutex_;
  std::shared_ptr<HttpReply> reply_ ABSL_GUARDED_BY(mutex_);  // null: away
  int num_readers_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<std::string> kept_ ABSL_GUARDED_BY(mutex_);
  size_t kept_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t num_events_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Duration last_written_ ABSL_GUARDED_BY(mutex_);
  absl::Duration away_since_ ABSL_GUARDED_BY(mutex_);
  bool is_ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_abandoned_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace deltafin
