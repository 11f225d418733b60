// expert_node/request_queue.h
//
// The requests of one coordinator stream between the thread that reads them and
// the thread that runs them. Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "expert_node/layer_work.h"
#include "expert_node/request_gate.h"

namespace deltafin {

// A request on its way through the node. A bad one goes the same way, with the
// status that its reply will carry, so that one thread writes all replies.
struct QueuedRequest {
  LayerWork work;        // of a refused one only its name: epoch to part
  absl::Status refusal;  // not OK: answered with this, without being run
  absl::Time arrival;
  std::optional<RequestGate::Pass> pass;  // of one that is not refused
  std::atomic<bool> cancelled{false};
};

struct RequestQueueLimits {
  size_t max_requests = 256;
  size_t max_bytes = size_t{256} << 20;  // of latents
};

class RequestQueue {
 public:
  explicit RequestQueue(const RequestQueueLimits& limits) : limits_(limits) {}

  // Appends. Blocks while the queue is at a limit, which stops the reading of
  // the stream. Returns false, dropping the request, once closed.
  bool Push(std::shared_ptr<QueuedRequest> request);

  // Takes the oldest, which then counts as running until the next Pop. Blocks;
  // nullptr once the queue is closed and empty.
  std::shared_ptr<QueuedRequest> Pop();

  // Marks every request of the step, waiting or running, as cancelled. Returns
  // how many.
  int CancelStep(uint64_t epoch, uint64_t step);

  // No more Push. kFinish lets Pop drain what waits; kDrop empties the queue
  // and cancels what runs. Returns how many requests were dropped. May be
  // called again, kDrop after kFinish too.
  enum class CloseMode : uint8_t { kFinish, kDrop };
  int Close(CloseMode mode);

  // Requests waiting or running.
  size_t depth() const;

 private:
  static size_t BytesOf(const QueuedRequest& request) {
    return request.work.latent.size() * sizeof(float);
  }
  bool HasRoomFor(const QueuedRequest& request) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const RequestQueueLimits limits_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<std::shared_ptr<QueuedRequest>> waiting_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<QueuedRequest> running_ ABSL_GUARDED_BY(mutex_);
  size_t waiting_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace deltafin
