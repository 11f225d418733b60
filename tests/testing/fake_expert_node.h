// tests/testing/fake_expert_node.h
//
// An expert node that computes fake terms (fake_routed_experts.h) and
// misbehaves as told: a gRPC server on loopback or in process. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "kernels/expert_weights.h"
#include "proto/expert.pb.h"
#include "proto/protocol_version.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace deltafin::testing {

// What a node does with a reply that it has computed.
enum class ReplyFate : uint8_t {
  kSend,
  kSendTwice,
  kWithhold,     // until the next one: order is reversed in pairs
  kForget,       // never answers
  kBreakStream,  // ends the stream with UNAVAILABLE
};

struct FakeNodeOptions {
  ExpertShape shape;
  std::string manifest_digest = "digest";
  uint32_t wire_version = kWireVersion;
  uint32_t numerics_version = kNumericsVersion;
  // Not OK: Handshake answers so (a google.rpc code, 0 OK).
  int refuse_with = 0;
  std::string refusal;
  // Before each answer.
  absl::Duration delay;
  // May change the reply in any way and says what becomes of it. Called by
  // server threads, one at a time per stream.
  std::function<ReplyFate(const v1::LayerRequest& request,
                          v1::LayerReply* reply)>
      on_reply;
  // Listen on this port of 127.0.0.1; 0: any free one.
  int port = 0;
};

class FakeExpertNode {
 public:
  // REQUIRES: the port is free.
  explicit FakeExpertNode(FakeNodeOptions options);
  ~FakeExpertNode();  // Stop

  std::string address() const;  // 127.0.0.1:PORT
  int port() const;
  std::shared_ptr<grpc::Channel> InProcessChannel();

  // Ends streams and server at once, as a killed process does. Idempotent.
  void Stop();

  v1::NodeCounters counters() const;
  int steps_cancelled() const;  // CancelStep messages received
  int handshakes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace deltafin::testing
