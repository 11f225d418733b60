#include "expert_node/coordinator_client.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/random_id.h"
#include "common/net/grpc_status.h"
#include "expert_node/join_answer.h"

namespace deltafin {
namespace {

constexpr absl::Duration kLeaveTimeout = absl::Seconds(1);
// A machine that is busy may answer late whatever the interval.
constexpr absl::Duration kLeastBeatTimeout = absl::Seconds(1);
// Heartbeats after which a membership counts as settled.
constexpr int kSettledBeats = 3;
constexpr int kReconnectMs = 100;
constexpr int kMaxReconnectMs = 1000;

bool IsRefusal(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) ||
         absl::IsUnauthenticated(status) || absl::IsPermissionDenied(status) ||
         absl::IsInvalidArgument(status);
}

// Uniform in [0.5, 1.5) of it.
absl::Duration Jittered(absl::Duration duration) {
  const double draw = static_cast<double>(RandomNumber() >> 11) * 0x1p-53;
  return duration * (0.5 + draw);
}

}  // namespace

CoordinatorClient::CoordinatorClient(CoordinatorClientOptions options,
                                     DataFolder& folder)
    : options_(std::move(options)), folder_(folder) {
  progress_.retry = options_.first_retry;
  Connect();
  thread_ = std::thread([this] { Loop(); });
}

CoordinatorClient::~CoordinatorClient() { Stop(); }

void CoordinatorClient::Stop() {
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    if (running_ != nullptr) running_->TryCancel();
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

// A new connection, not one that this process has already: after a call that
// was not answered the old one may lead nowhere.
void CoordinatorClient::Connect() {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kReconnectMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectMs);
  stub_ = v1::ClusterService::NewStub(
      options_.credentials.Connect(options_.coordinator, arguments));
}

void CoordinatorClient::Loop() {
  absl::Duration pause;
  while (pause != absl::InfiniteDuration()) {
    pause = progress_.is_member ? Beat() : TryJoin();
    if (!Pause(pause)) break;
  }
  if (progress_.is_member) Leave();
}

bool CoordinatorClient::Pause(absl::Duration pause) {
  const absl::Time next = absl::Now() + pause;
  MutexLock lock(mutex_);
  // Who was refused or has lost the coordinator is in no hurry.
  const bool may_hurry = progress_.is_member && !progress_.is_lost;
  while (!stopped_ && !(may_hurry && hurry_) && absl::Now() < next) {
    changed_.WaitUntil(mutex_, next);
  }
  hurry_ = false;
  return !stopped_;
}

void CoordinatorClient::Hurry() {
  MutexLock lock(mutex_);
  hurry_ = true;
  changed_.NotifyAll();
}

absl::Status CoordinatorClient::Call(
    absl::Duration timeout,
    const std::function<absl::Status(grpc::ClientContext*)>& call) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  {
    MutexLock lock(mutex_);
    if (stopped_) context.TryCancel();
    running_ = &context;
  }
  const absl::Status status = call(&context);
  MutexLock lock(mutex_);
  running_ = nullptr;
  return status;
}

absl::Duration CoordinatorClient::TryJoin() {
  v1::JoinRequest request = options_.join;
  request.set_highest_epoch(folder_.highest_epoch());
  *request.mutable_capacity() = options_.capacity();
  *request.mutable_load() = options_.load();
  *request.mutable_holdings() = options_.holdings();
  v1::JoinReply reply;
  const absl::Status status =
      Call(options_.call_timeout, [&](grpc::ClientContext* context) {
        return ExplainConnection(
            FromGrpc(stub_->Join(context, request, &reply)));
      });
  if (IsRefusal(status) || absl::IsAlreadyExists(status)) {
    return Refused(status);
  }
  if (!status.ok()) return Failed(status);
  const JoinedCluster joined = ReadJoinReply(reply);
  spdlog::info("joined the cluster of coordinator {} at {}, epoch {}",
               joined.coordinator, options_.coordinator, reply.epoch());
  progress_.was_member = true;
  progress_.is_member = true;
  progress_.is_lost = false;
  progress_.beats = 0;
  progress_.refusal.clear();
  progress_.told_holdings = request.holdings().version();
  progress_.heartbeat = joined.heartbeat;
  KeepEpoch(reply.epoch());
  return absl::ZeroDuration();  // the first heartbeat makes it serve
}

absl::Duration CoordinatorClient::Beat() {
  v1::HeartbeatRequest request;
  request.set_node_id(options_.join.identity().node_id());
  request.set_incarnation(options_.join.incarnation());
  request.set_highest_epoch(folder_.highest_epoch());
  request.set_round_trip_us(
      static_cast<uint32_t>(absl::ToInt64Microseconds(progress_.round_trip)));
  *request.mutable_capacity() = options_.capacity();
  *request.mutable_load() = options_.load();
  if (options_.holdings_version() != progress_.told_holdings) {
    *request.mutable_holdings() = options_.holdings();
  }
  v1::HeartbeatReply reply;
  const absl::Duration sent = SystemClock().Elapsed();
  const absl::Status status =
      Call(std::clamp(2 * progress_.heartbeat, kLeastBeatTimeout,
                      options_.call_timeout),
           [&](grpc::ClientContext* context) {
             return ExplainConnection(
                 FromGrpc(stub_->Heartbeat(context, request, &reply)));
           });
  const absl::Duration elapsed = SystemClock().Elapsed() - sent;
  if (absl::IsNotFound(status)) {
    spdlog::info("the coordinator does not know this node: joining again");
    progress_.is_member = false;
    return NextRetry();
  }
  if (!status.ok()) return Failed(status);
  if (progress_.is_lost) {
    spdlog::info("coordinator {} answers again", options_.coordinator);
  }
  progress_.is_lost = false;
  progress_.round_trip = elapsed;
  if (request.has_holdings()) {
    progress_.told_holdings = request.holdings().version();
  }
  if (++progress_.beats >= kSettledBeats) {
    progress_.retry = options_.first_retry;
  }
  KeepEpoch(reply.epoch());
  return std::max(progress_.heartbeat - elapsed, absl::ZeroDuration());
}

absl::Duration CoordinatorClient::Refused(const absl::Status& why) {
  if (!progress_.was_member && IsRefusal(why)) {
    options_.on_refused(why);
    return absl::InfiniteDuration();
  }
  const std::string message(why.message());
  if (message != progress_.refusal) {
    spdlog::error("coordinator {} does not accept this node: {}; trying on",
                  options_.coordinator, message);
    progress_.refusal = message;
  }
  return Jittered(IsRefusal(why) ? options_.slow_retry : options_.last_retry);
}

absl::Duration CoordinatorClient::Failed(const absl::Status& why) {
  if (!progress_.is_lost && !absl::IsCancelled(why)) {
    spdlog::warn("coordinator {} does not answer: {}; trying on",
                 options_.coordinator, std::string(why.message()));
    progress_.is_lost = true;
  }
  progress_.round_trip = absl::ZeroDuration();
  if (absl::IsDeadlineExceeded(why)) Connect();
  const absl::Duration retry = NextRetry();
  return progress_.is_member ? std::min(retry, progress_.heartbeat) : retry;
}

absl::Duration CoordinatorClient::NextRetry() {
  const absl::Duration retry = progress_.retry;
  progress_.retry = std::min(2 * retry, options_.last_retry);
  return Jittered(retry);
}

void CoordinatorClient::KeepEpoch(uint64_t epoch) {
  const absl::Status status = folder_.KeepEpoch(epoch);
  if (!status.ok()) {
    spdlog::debug("the epoch cannot be kept: {}", status.ToString());
  }
}

void CoordinatorClient::Leave() {
  v1::LeaveRequest request;
  request.set_node_id(options_.join.identity().node_id());
  request.set_incarnation(options_.join.incarnation());
  v1::LeaveReply reply;
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kLeaveTimeout));
  const grpc::Status status = stub_->Leave(&context, request, &reply);
  if (status.ok()) spdlog::info("left the cluster");
}

}  // namespace deltafin
