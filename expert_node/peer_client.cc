#include "expert_node/peer_client.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/net/grpc_status.h"
#include "common/net/listen_address.h"
#include "expert_node/copy_pace.h"
#include "expert_node/peer_answers.h"
#include "expert_node/slice_sender.h"

namespace deltafin {
namespace {

// More owners than a cluster has members are connections left behind.
constexpr size_t kMaxOwners = 256;
// One attempt to connect may take this long; gRPC takes the time from the
// argument named MIN_RECONNECT_BACKOFF.
constexpr int kConnectAttemptMs = 10'000;
constexpr int kFirstReconnectMs = 100;
constexpr int kLastReconnectMs = 1000;
// A message's fields beside its bytes.
constexpr size_t kMessageOverhead = 4096;
constexpr size_t kLeastMessageBytes = size_t{4} << 20;

std::shared_ptr<grpc::Channel> Connect(const PeerClientOptions& options,
                                       const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstReconnectMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectAttemptMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kLastReconnectMs);
  const Keepalive keepalive = KeepaliveWithin(options.keepalive_bound);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS,
                   static_cast<int>(absl::ToInt64Milliseconds(keepalive.time)));
  arguments.SetInt(
      GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
      static_cast<int>(absl::ToInt64Milliseconds(keepalive.timeout)));
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  const size_t slice_bytes = options.shape.slice_offset(1);
  arguments.SetMaxReceiveMessageSize(static_cast<int>(
      std::max(kLeastMessageBytes, slice_bytes + kMessageOverhead)));
  return options.credentials.Connect(address, arguments);
}

}  // namespace

// A call that ends with the client.
class PeerClient::Call {
 public:
  Call(PeerClient& client, absl::Duration timeout) : client_(client) {
    context_.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
    MutexLock lock(client_.mutex_);
    client_.calls_.insert(&context_);
    if (client_.cancelled_) context_.TryCancel();
  }
  ~Call() {
    MutexLock lock(client_.mutex_);
    client_.calls_.erase(&context_);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  grpc::ClientContext* context() { return &context_; }

 private:
  PeerClient& client_;
  grpc::ClientContext context_;
};

PeerClient::PeerClient(PeerClientOptions options)
    : options_(std::move(options)),
      coordinator_(v1::ClusterService::NewStub(
          Connect(options_, options_.coordinator))) {}

PeerClient::~PeerClient() { Cancel(); }

void PeerClient::Cancel() {
  MutexLock lock(mutex_);
  cancelled_ = true;
  for (grpc::ClientContext* call : calls_) call->TryCancel();
}

absl::StatusOr<std::vector<SlicePeers::OwnedRun>> PeerClient::FindOwners(
    ExpertKey key, SliceRun run) {
  v1::FindOwnersRequest request;
  request.set_node_id(options_.node_id);
  request.set_incarnation(options_.incarnation);
  request.set_layer(key.layer);
  request.set_expert(key.expert);
  request.set_first_slice(run.first);
  request.set_num_slices(run.count);
  v1::FindOwnersReply reply;
  Call call(*this, options_.ask_timeout);
  RETURN_IF_ERROR(AddContext(
      FromGrpc(coordinator_->FindOwners(call.context(), request, &reply)),
      "asking coordinator " + options_.coordinator + " for owners"));
  return OwnedRunsOf(reply, run);
}

absl::StatusOr<v1::NextCopiesReply> PeerClient::NextCopies(uint32_t max_orders,
                                                           bool has_source) {
  v1::NextCopiesRequest request;
  request.set_node_id(options_.node_id);
  request.set_incarnation(options_.incarnation);
  request.set_max_orders(max_orders);
  request.set_has_source(has_source);
  v1::NextCopiesReply reply;
  Call call(*this, options_.ask_timeout);
  RETURN_IF_ERROR(
      FromGrpc(coordinator_->NextCopies(call.context(), request, &reply)));
  return reply;
}

absl::StatusOr<std::shared_ptr<v1::ExpertService::Stub>> PeerClient::StubOf(
    const std::string& owner) {
  {
    MutexLock lock(mutex_);
    const auto found = owners_.find(owner);
    if (found != owners_.end()) return found->second;
  }
  const std::string& address =
      owner == kCoordinatorOwner ? options_.coordinator : owner;
  ASSIGN_OR_RETURN(const ListenAddress parsed, ListenAddress::Parse(address));
  RETURN_IF_ERROR(RequireProtected("connect to", parsed,
                                   options_.credentials.is_plaintext()));
  std::shared_ptr<v1::ExpertService::Stub> stub =
      v1::ExpertService::NewStub(Connect(options_, address));
  MutexLock lock(mutex_);
  if (owners_.size() >= kMaxOwners) owners_.clear();
  owners_[owner] = stub;
  return stub;
}

// An owner that is gone is noticed sooner, by its keepalive.
absl::Duration PeerClient::TimeoutOf(
    SliceRun run, std::optional<uint64_t> copy_budget) const {
  CopyPace pace;
  pace.SetBudget(copy_budget.value_or(0));
  const size_t bytes = options_.shape.slice_offset(run.first + run.count) -
                       options_.shape.slice_offset(run.first);
  return options_.read_timeout + SliceSender::kMaxWaiting * pace.TimeOf(bytes);
}

absl::Status PeerClient::ReadSlices(const std::string& owner, ExpertKey key,
                                    SliceRun run,
                                    std::optional<uint64_t> copy_budget,
                                    TakeSlice take) {
  ASSIGN_OR_RETURN(const std::shared_ptr<v1::ExpertService::Stub> stub,
                   StubOf(owner));
  v1::ReadSlicesRequest request;
  request.set_manifest_digest(options_.manifest_digest);
  request.set_layer(key.layer);
  request.set_expert(key.expert);
  request.set_first_slice(run.first);
  request.set_num_slices(run.count);
  request.set_is_copy(copy_budget.has_value());
  request.set_copy_bytes_per_second(copy_budget.value_or(0));
  Call call(*this, TimeoutOf(run, copy_budget));
  const auto reader = stub->ReadSlices(call.context(), request);
  v1::SliceBytes slice;
  absl::Status taken;
  while (taken.ok() && reader->Read(&slice)) {
    taken = GiveSlice(slice, run, take);
  }
  if (!taken.ok()) call.context()->TryCancel();
  const absl::Status ended = FromGrpc(reader->Finish());
  return taken.ok() ? ended : taken;
}

}  // namespace deltafin
