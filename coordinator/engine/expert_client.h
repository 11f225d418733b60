// coordinator/engine/expert_client.h
//
// The coordinator's end of the expert streams: one long-lived stream to each
// node, and one wait over all of them. Whoever calls Next moves the bytes, so a
// round trip costs no thread switch here. Thread-compatible: one thread at a
// time.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/net/credentials.h"
#include "common/net/keepalive.h"
#include "coordinator/cluster/handshake.h"
#include "proto/expert.pb.h"

namespace grpc {
class Channel;
class ChannelArguments;
}  // namespace grpc

namespace deltafin {

// A node to connect to.
struct NodeEndpoint {
  std::string name;  // for messages: "host:port", "in-process"
  std::shared_ptr<grpc::Channel> channel;
};

// What channels to expert nodes need: message sizes, windows, quick
// reconnection. For channels made elsewhere (in-process ones).
// That the other end is gone is noticed within `keepalive_bound`.
void SetExpertChannelArguments(
    grpc::ChannelArguments* arguments,
    absl::Duration keepalive_bound = kDefaultKeepaliveBound);

// A channel to host:port. Does not connect yet.
std::shared_ptr<grpc::Channel> MakeExpertChannel(
    const std::string& address, const Credentials& credentials = {},
    absl::Duration keepalive_bound = kDefaultKeepaliveBound);

struct NodeEvent {
  enum class Kind : uint8_t {
    kNone,    // the deadline passed
    kOpened,  // handshake and stream are done: can_send
    kSent,    // the message has left: can_send again
    kReply,   // reply(node) holds the next reply
    kClosed,  // the stream is gone; close_status(node) says why
  };
  Kind kind = Kind::kNone;
  int node = 0;
};

// Nodes are known by small numbers that the caller chooses.
class ExpertClients {
 public:
  explicit ExpertClients(HandshakeIdentity identity);
  // Cancels the streams and waits until the library has let go of them.
  ~ExpertClients();
  ExpertClients(const ExpertClients&) = delete;
  ExpertClients& operator=(const ExpertClients&) = delete;

  // Gives the number to a node; whoever had it is closed. Connects nothing yet.
  void SetNode(int node, NodeEndpoint endpoint);
  // Closes the node and forgets it.
  void RemoveNode(int node);
  bool has_node(int node) const;
  // Higher than any number given.
  int num_nodes() const { return static_cast<int>(nodes_.size()); }
  // REQUIRES for all below: has_node(node).
  const std::string& name(int node) const;

  // Begins handshake and stream; kOpened or kClosed tells the outcome. Never
  // blocks. REQUIRES: is_closed(node).
  void Open(int node, absl::Time deadline);
  // Neither connected nor on its way there.
  bool is_closed(int node) const;
  bool connected(int node) const;
  // What the node said of itself when it was last connected.
  const v1::HandshakeReply& info(int node) const;

  // Connected, and the message before has left.
  bool can_send(int node) const;
  // Hands one message to the stream; it may be changed at once. Never blocks.
  // REQUIRES: can_send(node).
  void Send(int node, const v1::NodeRequest& message);

  // The next event of any node, until `deadline`; a deadline that has passed
  // takes what is there.
  NodeEvent Next(absl::Time deadline);
  // Valid until the next call of Next, Close, SetNode or RemoveNode.
  const v1::LayerReply& reply(int node) const;
  // Names the node. UNAVAILABLE; FAILED_PRECONDITION when model, wire or
  // numerics version differ (both values); UNAUTHENTICATED when it is of
  // another cluster; DEADLINE_EXCEEDED.
  const absl::Status& close_status(int node) const;

  // Ends the node's stream now; waits only for the library to let go of it.
  // Events of other nodes meanwhile are kept.
  void Close(int node);

 private:
  struct Node;
  struct Queue;

  NodeEvent TakeEvent(absl::Time deadline);
  void StartRead(Node* node);
  void BeginFinish(Node* node);
  NodeEvent Complete(void* tag, bool ok);
  NodeEvent CompleteHandshake(Node* node);
  NodeEvent Closed(Node* node, const absl::Status& why);

  const HandshakeIdentity identity_;
  std::unique_ptr<Queue> queue_;
  std::vector<std::unique_ptr<Node>> nodes_;  // null: no such node
  std::deque<NodeEvent> kept_;  // of other nodes, while one was closed
  Node* replied_ = nullptr;  // its reply was handed out, no read is under way
};

}  // namespace deltafin
