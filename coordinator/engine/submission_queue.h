// coordinator/engine/submission_queue.h
//
// The door between the threads that submit and the engine thread that works:
// requests wait here in order of arrival, and every unfinished request can be
// cancelled by its id. Thread-safe; methods marked "engine" are for the one
// thread that takes requests out.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "coordinator/engine/live_request.h"

namespace deltafin {

struct AcceptedRequest {
  RequestId id = 0;
  std::unique_ptr<LiveRequest> request;
};

class SubmissionQueue {
 public:
  explicit SubmissionQueue(int max_queued);

  // Errors: RESOURCE_EXHAUSTED when full, UNAVAILABLE when closed.
  absl::StatusOr<RequestId> Push(std::unique_ptr<LiveRequest> request);
  // Marks the request, wherever it is now. Unknown ids are ignored.
  void Cancel(RequestId id);
  // Refuses further requests and wakes the engine. Those that wait stay.
  void Close();
  bool closed() const;
  size_t num_waiting() const;

  // Engine. Blocks while nothing waits, unless `busy`; false once closed.
  // `idle` is called now and then meanwhile.
  bool WaitForWork(bool busy, absl::FunctionRef<void()> idle);
  // Engine. The oldest, still waiting; null when none. Valid until Pop.
  LiveRequest* Front();
  // Engine. REQUIRES: Front() is not null.
  AcceptedRequest Pop();
  // Engine. Takes out those that wait and have ended from outside.
  std::vector<AcceptedRequest> RemoveEnded();
  // Engine. Must be called before the request is destroyed.
  void Forget(RequestId id);

 private:
  const size_t max_queued_;
  mutable Mutex mutex_;
  CondVar changed_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  RequestId last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<AcceptedRequest> waiting_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<RequestId, LiveRequest*> unfinished_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace deltafin
