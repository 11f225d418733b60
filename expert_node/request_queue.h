// expert_node/request_queue.h
//
// The requests of one coordinator stream, and what its two threads do next: one
// reads while the other runs. A thread that has read a request runs it itself
// when nothing else runs, so that a lone request changes threads nowhere. Parts
// of one layer that wait run together. Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "expert_node/layer_work.h"
#include "expert_node/request_gate.h"

namespace deltafin {

// A request on its way through the node. A bad one goes the same way, with the
// status that its reply will carry, so that replies keep one order.
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
  // Most tokens that run together, unless one request has more. Sums take 8
  // bytes x latent width x tokens in each thread, activations some 4 bytes x
  // latent width x top-k x tokens once: for K3 and 1,024 tokens 29 MB a thread
  // and 0.2 GB.
  int max_run_tokens = 1024;
  // How long a run waits for parts of its layer that were announced, counted
  // from the last arrival. They are on the wire already; this is for a
  // coordinator that has stopped sending.
  absl::Duration part_wait = absl::Milliseconds(100);
};

class RequestQueue {
 public:
  enum class Task : uint8_t {
    kRead,  // read the stream up to the next request, then FinishRead
    kRun,   // run `requests` and send their replies, then FinishRun
    kEnd,   // nothing is left and nothing will come
  };
  using Requests = std::vector<std::shared_ptr<QueuedRequest>>;
  struct Turn {
    Task task = Task::kEnd;
    Requests requests;  // of kRun: parts of one layer, in order of arrival
  };

  explicit RequestQueue(const RequestQueueLimits& limits) : limits_(limits) {}

  // What the calling thread is to do: run the oldest request, with the parts of
  // its layer that wait, unless something runs or more parts are to come; else
  // read unless somebody reads or the queue is at a limit (which holds the
  // coordinator back). Blocks until there is something to do.
  //
  // More parts are to come when a request tells of more than have arrived,
  // there is room for them in the run, nothing else waits, the step is not
  // cancelled and the stream is open; for part_wait at most.
  Turn Take();
  // The reader's result, nullptr at the end of the stream, which is to be told
  // with Close first. Drops the request once closed.
  void FinishRead(std::shared_ptr<QueuedRequest> request);
  void FinishRun();

  // Marks every request of the step, waiting or running, as cancelled. Returns
  // how many.
  int CancelStep(uint64_t epoch, uint64_t step);

  // Nothing more is read. kFinish leaves what waits to be run; kDrop forgets it
  // and cancels what runs. Returns how many requests were dropped. May be
  // called again, kDrop after kFinish too.
  enum class CloseMode : uint8_t { kFinish, kDrop };
  int Close(CloseMode mode);

  // Requests waiting or running.
  size_t depth() const;

 private:
  // What runs next.
  struct Run {
    std::vector<size_t> members;  // indices into waiting_, ascending
    bool may_grow = false;        // more parts are to come
  };
  // The layer whose parts ran last, and how many of them did.
  struct Progress {
    uint64_t epoch = 0;
    uint64_t step = 0;
    int layer = -1;
    size_t num_run = 0;
  };

  // REQUIRES: something waits.
  Run NextRun() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Until when the run is to wait; the past if it is not.
  absl::Time WaitOf(const Run& run) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Moves the run's requests to running_.
  Requests Begin(const Run& run) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  size_t NumRunOf(const LayerWork& work) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  static size_t BytesOf(const QueuedRequest& request) {
    return request.work.latent.size() * sizeof(float);
  }
  bool HasRoom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return waiting_.size() < limits_.max_requests &&
           waiting_bytes_ < limits_.max_bytes;
  }

  const RequestQueueLimits limits_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<std::shared_ptr<QueuedRequest>> waiting_ ABSL_GUARDED_BY(mutex_);
  Requests running_ ABSL_GUARDED_BY(mutex_);
  Progress progress_ ABSL_GUARDED_BY(mutex_);
  size_t waiting_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace deltafin
