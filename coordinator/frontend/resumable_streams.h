// coordinator/frontend/resumable_streams.h
//
// Streams whose clients may come back for them, by id. Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "coordinator/frontend/server_sent_events.h"

namespace deltafin {

class ResumableStreams {
 public:
  // Beyond them none can be resumed: each may keep megabytes.
  static constexpr size_t kMaxStreams = 256;

  // Keeps the stream while a client may come for it; returns the id to ask for.
  // Errors: RESOURCE_EXHAUSTED.
  absl::StatusOr<std::string> Add(std::shared_ptr<EventStream> stream);

  // Errors: NOT_FOUND.
  absl::StatusOr<std::shared_ptr<EventStream>> Find(std::string_view id);
  // The stream, which nobody finds any more. Errors: NOT_FOUND.
  absl::StatusOr<std::shared_ptr<EventStream>> Remove(std::string_view id);

 private:
  absl::StatusOr<std::shared_ptr<EventStream>> FindLocked(std::string_view id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DropOver() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  absl::flat_hash_map<std::string, std::shared_ptr<EventStream>> streams_
      ABSL_GUARDED_BY(mutex_);
};

// The number in "from=N" of a query, 1 where there is none. Errors:
// INVALID_ARGUMENT by FieldError.
absl::StatusOr<uint64_t> ParseFrom(std::string_view query);

}  // namespace deltafin
