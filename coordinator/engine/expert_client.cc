#include "coordinator/engine/expert_client.h"

#include <grpcpp/grpcpp.h>

#include <array>
#include <utility>

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/net/grpc_status.h"
#include "proto/expert.grpc.pb.h"

namespace deltafin {
namespace {

// 128 rows of the widest latent that is plausible (16,384), with room.
constexpr int kMaxMessageBytes = 64 << 20;
// Bytes of one stream that may be under way: a window that never closes on a
// message of 128 K3 rows (4 MiB).
constexpr int kStreamWindowBytes = 8 << 20;
constexpr int kMaxFrameBytes = 1 << 20;
// One attempt to connect may take this long, on a busy machine too; a refusal
// is known at once. gRPC takes the time from the argument named
// MIN_RECONNECT_BACKOFF.
constexpr int kConnectAttemptMs = 10'000;
constexpr int kFirstReconnectMs = 100;
constexpr int kLastReconnectMs = 1000;

enum class Operation : uint8_t { kHandshake, kStart, kRead, kWrite, kFinish };
constexpr int kNumOperations = 5;

int Milliseconds(absl::Duration duration) {
  return static_cast<int>(absl::ToInt64Milliseconds(duration));
}

// Why a stream ended, as the step sees it: a node that hangs up is gone,
// whatever it said on the way.
absl::Status StreamEnd(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::OK:
      return absl::UnavailableError("the node closed the stream");
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::UNKNOWN:
    case grpc::StatusCode::UNAVAILABLE:
      return absl::UnavailableError(fmt::format(
          "connection lost: {}; see that node's log", status.error_message()));
    default:
      return FromGrpc(status);
  }
}

}  // namespace

void SetExpertChannelArguments(grpc::ChannelArguments* arguments,
                               absl::Duration keepalive_bound) {
  const Keepalive keepalive = KeepaliveWithin(keepalive_bound);
  arguments->SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments->SetMaxSendMessageSize(kMaxMessageBytes);
  arguments->SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kStreamWindowBytes);
  arguments->SetInt(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kMaxFrameBytes);
  arguments->SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstReconnectMs);
  arguments->SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectAttemptMs);
  arguments->SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kLastReconnectMs);
  arguments->SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments->SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(keepalive.time));
  arguments->SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                    Milliseconds(keepalive.timeout));
  arguments->SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments->SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
}

std::shared_ptr<grpc::Channel> MakeExpertChannel(
    const std::string& address, const Credentials& credentials,
    absl::Duration keepalive_bound) {
  grpc::ChannelArguments arguments;
  SetExpertChannelArguments(&arguments, keepalive_bound);
  return credentials.Connect(address, arguments);
}

struct ExpertClients::Queue {
  grpc::CompletionQueue completions;
};

struct ExpertClients::Node {
  struct Tag {
    Node* node = nullptr;
    Operation operation = Operation::kStart;
  };

  Node(int index, NodeEndpoint node_endpoint)
      : index(index),
        endpoint(std::move(node_endpoint)),
        stub(v1::ExpertService::NewStub(endpoint.channel)) {
    for (int i = 0; i < kNumOperations; ++i) {
      tags[i] = {this, static_cast<Operation>(i)};
    }
  }

  // Counts an operation as under way and returns its tag.
  void* Begin(Operation operation) {
    ++num_outstanding;
    return &tags[static_cast<int>(operation)];
  }

  const int index;
  const NodeEndpoint endpoint;
  const std::unique_ptr<v1::ExpertService::Stub> stub;
  std::array<Tag, kNumOperations> tags;
  v1::HandshakeReply info;
  // The handshake, while it is under way.
  v1::HandshakeRequest hello;
  std::unique_ptr<grpc::ClientContext> hello_context;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::HandshakeReply>> greeting;
  // The stream, while there is one.
  std::unique_ptr<grpc::ClientContext> context;
  std::unique_ptr<
      grpc::ClientAsyncReaderWriter<v1::NodeRequest, v1::LayerReply>>
      stream;
  v1::LayerReply reply;
  grpc::Status end;  // of the handshake, then of the stream
  absl::Status close_status;
  int num_outstanding = 0;
  bool connected = false;
  bool writing = false;
  bool finishing = false;
  bool closing = false;  // by Close
};

ExpertClients::ExpertClients(HandshakeIdentity identity)
    : identity_(std::move(identity)), queue_(std::make_unique<Queue>()) {}

ExpertClients::~ExpertClients() {
  for (int node = 0; node < num_nodes(); ++node) RemoveNode(node);
  queue_->completions.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_->completions.Next(&tag, &ok)) {
  }
}

void ExpertClients::SetNode(int node, NodeEndpoint endpoint) {
  RemoveNode(node);
  if (node >= num_nodes()) nodes_.resize(node + 1);
  nodes_[node] = std::make_unique<Node>(node, std::move(endpoint));
}

void ExpertClients::RemoveNode(int node) {
  if (!has_node(node)) return;
  Close(node);
  std::erase_if(kept_,
                [node](const NodeEvent& event) { return event.node == node; });
  nodes_[node].reset();
}

bool ExpertClients::has_node(int node) const {
  return node < num_nodes() && nodes_[node] != nullptr;
}
const std::string& ExpertClients::name(int node) const {
  return nodes_[node]->endpoint.name;
}
bool ExpertClients::is_closed(int node) const {
  return nodes_[node]->greeting == nullptr && nodes_[node]->stream == nullptr;
}
bool ExpertClients::connected(int node) const {
  return nodes_[node]->connected;
}
const v1::HandshakeReply& ExpertClients::info(int node) const {
  return nodes_[node]->info;
}
bool ExpertClients::can_send(int node) const {
  return nodes_[node]->connected && !nodes_[node]->writing;
}
const v1::LayerReply& ExpertClients::reply(int node) const {
  return nodes_[node]->reply;
}
const absl::Status& ExpertClients::close_status(int node) const {
  return nodes_[node]->close_status;
}

void ExpertClients::Open(int node_index, absl::Time deadline) {
  Node& node = *nodes_[node_index];
  DCHECK(is_closed(node_index));
  node.hello = MakeHandshake(identity_);
  node.hello_context = std::make_unique<grpc::ClientContext>();
  node.hello_context->set_deadline(absl::ToChronoTime(deadline));
  node.greeting = node.stub->AsyncHandshake(node.hello_context.get(),
                                            node.hello, &queue_->completions);
  node.greeting->Finish(&node.info, &node.end,
                        node.Begin(Operation::kHandshake));
}

void ExpertClients::Send(int node_index, const v1::NodeRequest& message) {
  Node& node = *nodes_[node_index];
  DCHECK(can_send(node_index));
  node.writing = true;
  node.stream->Write(message, node.Begin(Operation::kWrite));
}

NodeEvent ExpertClients::Next(absl::Time deadline) {
  if (replied_ != nullptr) StartRead(std::exchange(replied_, nullptr));
  if (!kept_.empty()) {
    const NodeEvent event = kept_.front();
    kept_.pop_front();
    if (event.kind == NodeEvent::Kind::kReply) {
      replied_ = nodes_[event.node].get();
    }
    return event;
  }
  return TakeEvent(deadline);
}

NodeEvent ExpertClients::TakeEvent(absl::Time deadline) {
  while (true) {
    void* tag = nullptr;
    bool ok = false;
    if (queue_->completions.AsyncNext(&tag, &ok,
                                      absl::ToChronoTime(deadline)) !=
        grpc::CompletionQueue::GOT_EVENT) {
      return {};
    }
    const NodeEvent event = Complete(tag, ok);
    if (event.kind != NodeEvent::Kind::kNone) return event;
  }
}

void ExpertClients::Close(int node_index) {
  Node& node = *nodes_[node_index];
  std::erase_if(kept_, [node_index](const NodeEvent& event) {
    return event.node == node_index;
  });
  Node* const handed_out = replied_ == &node ? nullptr : replied_;
  node.closing = true;
  node.connected = false;
  if (node.greeting != nullptr) node.hello_context->TryCancel();
  if (node.stream != nullptr) {
    node.context->TryCancel();
    BeginFinish(&node);
  }
  while (!is_closed(node_index)) {
    replied_ = nullptr;
    const NodeEvent event = TakeEvent(absl::Now() + absl::Seconds(1));
    if (event.kind != NodeEvent::Kind::kNone && event.node != node_index) {
      kept_.push_back(event);
    }
  }
  node.closing = false;
  replied_ = handed_out;
}

void ExpertClients::StartRead(Node* node) {
  if (!node->finishing) {
    node->stream->Read(&node->reply, node->Begin(Operation::kRead));
  }
}

void ExpertClients::BeginFinish(Node* node) {
  node->connected = false;
  if (std::exchange(node->finishing, true)) return;
  node->stream->Finish(&node->end, node->Begin(Operation::kFinish));
}

// Takes the end of one operation into the node's state; an event only where
// the caller has something to do.
NodeEvent ExpertClients::Complete(void* tag_pointer, bool ok) {
  const auto& tag = *static_cast<Node::Tag*>(tag_pointer);
  Node& node = *tag.node;
  --node.num_outstanding;
  if (tag.operation == Operation::kHandshake) return CompleteHandshake(&node);
  if (tag.operation == Operation::kWrite) node.writing = false;
  if (!ok) BeginFinish(&node);
  if (node.finishing) {
    if (node.num_outstanding > 0) return {};
    node.stream.reset();
    node.context.reset();
    node.finishing = false;
    if (replied_ == &node) replied_ = nullptr;
    return Closed(&node, StreamEnd(node.end));
  }
  switch (tag.operation) {
    case Operation::kStart:
      node.connected = true;
      StartRead(&node);
      return {NodeEvent::Kind::kOpened, node.index};
    case Operation::kWrite:
      return {NodeEvent::Kind::kSent, node.index};
    case Operation::kRead:
      replied_ = &node;
      return {NodeEvent::Kind::kReply, node.index};
    case Operation::kHandshake:
    case Operation::kFinish:
      return {};
  }
  return {};
}

NodeEvent ExpertClients::CompleteHandshake(Node* node) {
  node->greeting.reset();
  node->hello_context.reset();
  const absl::Status raw = FromGrpc(node->end);
  absl::Status status = ExplainConnection(raw);
  if (absl::IsUnavailable(status) && status == raw) {
    status = absl::UnavailableError(
        fmt::format("{}; is deltafin-node running there? Start it, or take it "
                    "out of --nodes if it is named there",
                    std::string(status.message())));
  }
  if (status.ok()) status = CheckNodeIdentity(node->hello, node->info);
  if (node->closing) status.Update(absl::CancelledError("closed"));
  if (!status.ok()) return Closed(node, AddContext(status, "handshake"));
  node->context = std::make_unique<grpc::ClientContext>();
  node->stream = node->stub->PrepareAsyncRunLayers(node->context.get(),
                                                   &queue_->completions);
  node->stream->StartCall(node->Begin(Operation::kStart));
  return {};
}

NodeEvent ExpertClients::Closed(Node* node, const absl::Status& why) {
  node->close_status =
      AddContext(why, fmt::format("node {}", node->endpoint.name));
  return {NodeEvent::Kind::kClosed, node->index};
}

}  // namespace deltafin
