// coordinator/frontend/reply_stream.h
//
// Replies on their way from the engine, which never waits, to a transport that
// writes one at a time. What a slow client leaves unread is bounded.
// Thread-safe.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>

#include "absl/status/status.h"
#include "common/base/mutex.h"
#include "proto/inference.pb.h"

namespace deltafin {

// Carries replies away. Called by whatever thread makes the call possible,
// never with a lock held.
class ReplyTransport {
 public:
  virtual ~ReplyTransport() = default;
  // Starts to write; `reply` stays valid until WriteDone. Must not block.
  virtual void Write(const v1::GenerateReply& reply) = 0;
  // After all writes; the last call of all.
  virtual void End(const absl::Status& status) = 0;
};

class ReplyStream {
 public:
  // `transport` must outlive this until its End returns. max_bytes bounds the
  // serialized replies that wait, the one being written included.
  ReplyStream(ReplyTransport& transport, size_t max_bytes)
      : transport_(transport), max_bytes_(max_bytes) {}

  // Queues a reply. False: the client is gone or reads too slowly, the reply
  // was dropped and every later one will be; Finish then ends the stream with
  // CANCELLED or RESOURCE_EXHAUSTED.
  bool Add(v1::GenerateReply reply);

  // Ends the stream with `status` when all replies are written. Once.
  void Finish(const absl::Status& status);

  // The transport is done with the reply of Write. ok: false when the client
  // cannot be reached any more.
  void WriteDone(bool ok);

 private:
  bool IsFull(size_t more_bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  ReplyTransport& transport_;
  const size_t max_bytes_;
  Mutex mutex_;
  std::deque<v1::GenerateReply> waiting_
      ABSL_GUARDED_BY(mutex_);  // the front is being written
  size_t waiting_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status broken_ ABSL_GUARDED_BY(mutex_);  // why replies are dropped
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace deltafin
