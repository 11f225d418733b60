#include "common/net/server_lifecycle.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <limits>
#include <mutex>

#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/net/connection_acceptor.h"
#include "common/net/grpc_log.h"
#include "common/net/listen_address.h"

namespace deltafin {
namespace {

// What a client may send before this side has read it: a layer's part is one to
// four MiB, and waiting for window updates would cost round trips.
constexpr int kStreamWindowBytes = 8 << 20;
constexpr int kMaxFrameBytes = 1 << 20;

// One connection's calls at once: a coordinator has a stream, a handshake and
// what its commands ask; a client of the API its requests.
constexpr int kMaxStreamsPerConnection = 256;
constexpr int kMaxMetadataBytes = 8 << 10;
// For TLS and the first frame, from a connection's first byte.
constexpr int kHandshakeTimeoutMs = 5'000;

// Process-wide and before the first builder; a second call of the reflection
// one would register its service twice.
void SetUpGrpcOnce() {
  static std::once_flag once;
  std::call_once(once, [] {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  });
}

// Notices clients that are gone, and lets them notice that this side is.
void AddKeepalive(const Keepalive& keepalive, grpc::ServerBuilder& builder) {
  builder.AddChannelArgument(
      GRPC_ARG_KEEPALIVE_TIME_MS,
      static_cast<int>(absl::ToInt64Milliseconds(keepalive.time)));
  builder.AddChannelArgument(
      GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
      static_cast<int>(absl::ToInt64Milliseconds(keepalive.timeout)));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
      kLeastPingIntervalMs);
}

void AddLimits(const ServerOptions& options, grpc::ServerBuilder& builder) {
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES,
                             kStreamWindowBytes);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kMaxFrameBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             kMaxStreamsPerConnection);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             kHandshakeTimeoutMs);
  builder.SetMaxReceiveMessageSize(static_cast<int>(std::min<int64_t>(
      options.max_receive_bytes, std::numeric_limits<int>::max())));
  builder.SetMaxSendMessageSize(-1);
  AddKeepalive(options.keepalive, builder);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServerLifecycle>> ServerLifecycle::Start(
    const ServerOptions& options, std::span<grpc::Service* const> services) {
  TakeGrpcLog();
  SetUpGrpcOnce();
  std::unique_ptr<ServerLifecycle> self(new ServerLifecycle());
  if (!options.listen.empty()) RETURN_IF_ERROR(self->Listen(options));
  grpc::ServerBuilder builder;
  AddLimits(options, builder);
  for (grpc::Service* service : services) builder.RegisterService(service);
  std::shared_ptr<grpc::experimental::ExternalConnectionAcceptor> into_grpc;
  if (self->acceptor_ != nullptr) {
    into_grpc = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        options.credentials.ForServer());
  }
  self->server_ = builder.BuildAndStart();
  if (self->server_ == nullptr) {
    return absl::InternalError("gRPC does not start a server");
  }
  if (self->acceptor_ == nullptr) return self;
  self->acceptor_->Start([into_grpc](int listener_fd, int fd) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters one;
    GrpcPeers().Connected(PeerOf(fd), absl::Now());
    one.listener_fd = listener_fd;
    one.fd = fd;
    into_grpc->HandleNewConnection(&one);
  });
  return self;
}

absl::Status ServerLifecycle::Listen(const ServerOptions& options) {
  ASSIGN_OR_RETURN(ListenAddress address, ListenAddress::Parse(options.listen));
  RETURN_IF_ERROR(RequireProtected("listen on", address,
                                   options.credentials.is_plaintext()));
  ASSIGN_OR_RETURN(acceptor_, ConnectionAcceptor::Listen(address));
  address.port = acceptor_->port();
  address_ = address.ToString();
  return absl::OkStatus();
}

int ServerLifecycle::bound_port() const {
  return acceptor_ == nullptr ? 0 : acceptor_->port();
}

ServerLifecycle::ServerLifecycle() = default;

ServerLifecycle::~ServerLifecycle() { Shutdown(absl::ZeroDuration()); }

std::shared_ptr<grpc::Channel> ServerLifecycle::InProcessChannel() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  return server_->InProcessChannel(arguments);
}

void ServerLifecycle::SetServing(const std::string& service, bool is_serving) {
  if (auto* health = server_->GetHealthCheckService()) {
    health->SetServingStatus(service, is_serving);
  }
}

void ServerLifecycle::SetNotServing() {
  if (shut_down_) return;
  if (auto* health = server_->GetHealthCheckService()) {
    health->SetServingStatus(false);
  }
}

void ServerLifecycle::Shutdown(absl::Duration drain) {
  if (server_ == nullptr || shut_down_) return;
  shut_down_ = true;
  if (acceptor_ != nullptr) acceptor_->Stop();
  server_->Shutdown(absl::ToChronoTime(absl::Now() + drain));
  server_->Wait();
}

}  // namespace deltafin
