// expert_node/layer_stream.h
//
// One coordinator's stream without its transport: requests in, replies out. Two
// threads share it: while one runs requests and sends their replies, the other
// reads, so that a cancellation is seen at once and a coordinator that reads
// slowly holds up nobody else.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/model_spec.h"
#include "common/net/metrics.h"
#include "expert_node/expert_engine.h"
#include "expert_node/request_gate.h"
#include "expert_node/request_queue.h"
#include "proto/expert.pb.h"

namespace deltafin {

// Requests since the node started; of all streams. Thread-safe.
struct RequestCounters {
  std::atomic<uint64_t> layer_requests{0};
  std::atomic<uint64_t> slices_computed{0};
  std::atomic<uint64_t> refused{0};
  std::atomic<uint64_t> cancelled{0};
  // Of answered requests, as their timings tell.
  std::atomic<int64_t> queue_us{0};
  std::atomic<int64_t> read_us{0};
  std::atomic<int64_t> compute_us{0};
  DurationHistogram answer_times;  // arrival to reply
};

// What all streams of a node share. All of it must outlive them.
struct LayerStreamContext {
  const ModelSpec& spec;
  ExpertEngine& engine;
  RequestCounters& counters;
  RequestGate& gate;
  int max_request_tokens;
  RequestQueueLimits queue_limits;
  // Tests: how long to hold a reply back. Empty: not at all. Thread-safe.
  std::function<absl::Duration()> reply_delay;
  // Tests: what a part that was computed ends with. Empty: well. Thread-safe.
  std::function<absl::Status()> reply_error;
};

class LayerStream {
 public:
  enum class Received : uint8_t {
    kMessage,
    kEnd,     // nothing more will come, replies are still wanted
    kBroken,  // nobody waits for replies
  };
  // Reads the next message; blocks. By one thread at a time.
  using Receive = std::function<Received(v1::NodeRequest* message)>;
  // Writes one reply; may block. False: the coordinator can be reached no more,
  // which drops what waits. By one thread at a time, while another receives.
  using Send = std::function<bool(const v1::LayerReply& reply)>;

  // `context` must outlive the stream.
  LayerStream(const LayerStreamContext& context, Receive receive, Send send);
  LayerStream(const LayerStream&) = delete;
  LayerStream& operator=(const LayerStream&) = delete;

  // Serves with the calling thread and one more until the stream has ended and
  // every layer request has had its one reply, a bad or cancelled one too; when
  // it breaks, what waits is forgotten and what runs stops at its next slice.
  // Call once. Errors: INVALID_ARGUMENT after a message without a request,
  // which ends the stream as if it had broken.
  absl::Status Serve();

 private:
  void TakeTurns();
  void ReadToNextRequest();
  Received ReadRequest(std::shared_ptr<QueuedRequest>* request);
  void Expect(const v1::ExpectExperts& request);
  void RunAndReply(const RequestQueue::Requests& requests);
  std::shared_ptr<QueuedRequest> Admit(const v1::LayerRequest& request);
  std::vector<LayerResult> Run(const RequestQueue::Requests& requests);
  v1::LayerReply Reply(const QueuedRequest& request, LayerResult result);
  void CloseQueue(RequestQueue::CloseMode mode);

  const LayerStreamContext& context_;
  const Receive receive_;
  const Send send_;
  RequestQueue queue_;
  v1::NodeRequest message_;  // of the thread that reads
  absl::Status end_;         // of the thread that reads
};

}  // namespace deltafin
