#include "coordinator/engine/expert_client.h"

#include <grpcpp/grpcpp.h>

#include <array>
#include <utility>

#include "common/base/check.h"
#include "common/base/status_macros.h"
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

enum class Operation : uint8_t { kStart, kRead, kWrite, kFinish };
constexpr int kNumOperations = 4;

absl::Status FromGrpc(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      status.error_message());
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
      return absl::UnavailableError(
          fmt::format("connection lost: {}; see that node's log, and start it "
                      "again or take it out of --nodes",
                      status.error_message()));
    default:
      return FromGrpc(status);
  }
}

}  // namespace

void SetExpertChannelArguments(grpc::ChannelArguments* arguments) {
  arguments->SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments->SetMaxSendMessageSize(kMaxMessageBytes);
  arguments->SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kStreamWindowBytes);
  arguments->SetInt(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kMaxFrameBytes);
  arguments->SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstReconnectMs);
  arguments->SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectAttemptMs);
  arguments->SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kLastReconnectMs);
  arguments->SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments->SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
}

std::shared_ptr<grpc::Channel> MakeExpertChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  SetExpertChannelArguments(&arguments);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                   arguments);
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
  // The stream, while there is one.
  std::unique_ptr<grpc::ClientContext> context;
  std::unique_ptr<
      grpc::ClientAsyncReaderWriter<v1::NodeRequest, v1::LayerReply>>
      stream;
  v1::LayerReply reply;
  grpc::Status end;
  absl::Status close_status;
  int num_outstanding = 0;
  bool connected = false;
  bool writing = false;
  bool finishing = false;
};

ExpertClients::ExpertClients(std::vector<NodeEndpoint> nodes,
                             HandshakeIdentity identity)
    : identity_(std::move(identity)), queue_(std::make_unique<Queue>()) {
  for (NodeEndpoint& endpoint : nodes) {
    nodes_.push_back(std::make_unique<Node>(num_nodes(), std::move(endpoint)));
  }
}

ExpertClients::~ExpertClients() {
  for (int node = 0; node < num_nodes(); ++node) Close(node);
  queue_->completions.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_->completions.Next(&tag, &ok)) {
  }
}

const std::string& ExpertClients::name(int node) const {
  return nodes_[node]->endpoint.name;
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

absl::Status ExpertClients::Connect(int node_index, absl::Duration timeout) {
  Node& node = *nodes_[node_index];
  const std::string context = fmt::format("node {}", node.endpoint.name);
  const absl::Time deadline = absl::Now() + timeout;
  Close(node_index);
  if (absl::Status status = Handshake(&node, deadline); !status.ok()) {
    return AddContext(status, context);
  }
  node.context = std::make_unique<grpc::ClientContext>();
  node.stream = node.stub->PrepareAsyncRunLayers(node.context.get(),
                                                 &queue_->completions);
  node.stream->StartCall(node.Begin(Operation::kStart));
  while (!node.connected) {
    const NodeEvent event = Next(deadline);
    if (event.kind == NodeEvent::Kind::kNone) {
      Close(node_index);
      return absl::DeadlineExceededError(fmt::format(
          "{}: no stream within {}", context, absl::FormatDuration(timeout)));
    }
    if (node.stream == nullptr) return node.close_status;
  }
  return absl::OkStatus();
}

absl::Status ExpertClients::Handshake(Node* node, absl::Time deadline) {
  const v1::HandshakeRequest request = MakeHandshake(identity_);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(deadline));
  v1::HandshakeReply reply;
  const grpc::Status status = node->stub->Handshake(&context, request, &reply);
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
    return absl::UnavailableError(
        fmt::format("handshake: {}; is deltafin-node running there? Start it, "
                    "or take it out of --nodes",
                    status.error_message()));
  }
  if (!status.ok()) return AddContext(FromGrpc(status), "handshake");
  RETURN_IF_ERROR(CheckNodeIdentity(request, reply));
  node->info = std::move(reply);
  return absl::OkStatus();
}

void ExpertClients::Send(int node_index, const v1::NodeRequest& message) {
  Node& node = *nodes_[node_index];
  DCHECK(can_send(node_index));
  node.writing = true;
  node.stream->Write(message, node.Begin(Operation::kWrite));
}

NodeEvent ExpertClients::Next(absl::Time deadline) {
  if (replied_ != nullptr) StartRead(std::exchange(replied_, nullptr));
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
  if (node.stream == nullptr) return;
  node.connected = false;
  node.context->TryCancel();
  BeginFinish(&node);
  while (node.stream != nullptr) Next(absl::Now() + absl::Seconds(1));
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
  if (tag.operation == Operation::kWrite) node.writing = false;
  if (!ok) BeginFinish(&node);
  if (node.finishing) {
    if (node.num_outstanding > 0) return {};
    node.close_status = AddContext(StreamEnd(node.end),
                                   fmt::format("node {}", node.endpoint.name));
    node.stream.reset();
    node.context.reset();
    node.finishing = false;
    if (replied_ == &node) replied_ = nullptr;
    return {NodeEvent::Kind::kClosed, node.index};
  }
  switch (tag.operation) {
    case Operation::kStart:
      node.connected = true;
      StartRead(&node);
      return {NodeEvent::Kind::kSent, node.index};
    case Operation::kWrite:
      return {NodeEvent::Kind::kSent, node.index};
    case Operation::kRead:
      replied_ = &node;
      return {NodeEvent::Kind::kReply, node.index};
    case Operation::kFinish:
      return {};
  }
  return {};
}

}  // namespace deltafin
