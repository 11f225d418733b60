// expert_node/layer_stream.h
//
// One coordinator's stream without its transport: requests in, replies out. The
// calling thread checks and queues; a thread of the stream runs requests one
// after the other and sends each one's reply, so that a coordinator that reads
// slowly holds up nobody else.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "absl/time/time.h"
#include "common/base/model_spec.h"
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
};

class LayerStream {
 public:
  // Writes one reply to the coordinator; called by the stream's thread only.
  // May block. False: it can be reached no more, which drops what waits.
  using Send = std::function<bool(const v1::LayerReply& reply)>;

  LayerStream(const LayerStreamContext& context, Send send);
  ~LayerStream();  // Close(kDrop)
  LayerStream(const LayerStream&) = delete;
  LayerStream& operator=(const LayerStream&) = delete;

  // Takes one message. Every layer request gets exactly one reply, a bad or
  // cancelled one too. Blocks while too much waits. By one thread.
  void Handle(const v1::NodeRequest& request);

  // No more requests. kFinish: answers those that wait, then returns. kDrop:
  // forgets them, stops the running one at its next slice. Idempotent.
  void Close(RequestQueue::CloseMode mode);

 private:
  void HandleLayer(const v1::LayerRequest& request);
  absl::Status Admit(const v1::LayerRequest& request, QueuedRequest& queued);
  void RunRequests();
  v1::LayerReply Answer(const QueuedRequest& request);
  void CloseQueue(RequestQueue::CloseMode mode);

  const LayerStreamContext& context_;
  const Send send_;
  RequestQueue queue_;
  std::thread runner_;
};

}  // namespace deltafin
