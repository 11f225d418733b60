#include "expert_node/expert_service.h"

#include <grpcpp/support/method_handler.h>

#include <string>

#include "absl/time/clock.h"
#include "common/base/log.h"
#include "common/net/grpc_status.h"
#include "expert_node/handshake.h"
#include "expert_node/slice_service.h"

namespace deltafin {
namespace {

// Index of RunLayers among the methods of the service, as declared.
constexpr int kRunLayersMethod = 1;

}  // namespace

ExpertService::ExpertService(const v1::HandshakeReply& identity,
                             const LayerStreamContext& context,
                             const TieredStore& store, SliceSender& slices)
    : identity_(identity), context_(context), store_(store), slices_(slices) {
  MarkMethodStreamed(
      kRunLayersMethod,
      new grpc::internal::BidiStreamingHandler<ExpertService, grpc::ByteBuffer,
                                               v1::LayerReply>(
          [](ExpertService* self, grpc::ServerContext* context,
             ByteStream* stream) {
            return self->RunByteStream(context, stream);
          },
          this));
}

grpc::Status ExpertService::Handshake(grpc::ServerContext* context,
                                      const v1::HandshakeRequest* request,
                                      v1::HandshakeReply* reply) {
  const absl::Status status = CheckHandshake(*request, identity_);
  if (!status.ok()) {
    spdlog::warn("refused coordinator {} at {}: {}",
                 NameOfCoordinator(*request), context->peer(),
                 status.ToString());
    return ToGrpc(status);
  }
  // gRPC knows no address for a caller in the same process: no news there.
  const bool same_process = context->peer() == "unknown";
  spdlog::log(same_process ? spdlog::level::debug : spdlog::level::info,
              "coordinator {} at {}", NameOfCoordinator(*request),
              context->peer());
  *reply = identity_;
  return grpc::Status::OK;
}

grpc::Status ExpertService::GetCounters(grpc::ServerContext* /*context*/,
                                        const v1::GetCountersRequest*,
                                        v1::NodeCounters* reply) {
  *reply = counters();
  return grpc::Status::OK;
}

grpc::Status ExpertService::ReadSlices(
    grpc::ServerContext* context, const v1::ReadSlicesRequest* request,
    grpc::ServerWriter<v1::SliceBytes>* writer) {
  return AnswerReadSlices(slices_, context, *request, writer);
}

v1::NodeCounters ExpertService::counters() const {
  const TieredStoreStats store = store_.stats();
  v1::NodeCounters counters;
  counters.set_layer_requests(context_.counters.layer_requests);
  counters.set_slices_computed(context_.counters.slices_computed);
  counters.set_refused_requests(context_.counters.refused);
  counters.set_cancelled_requests(context_.counters.cancelled);
  counters.set_queue_depth(context_.gate.num_inside());
  counters.set_bytes_read(store.bytes_read);
  counters.set_cache_hits(store.hits);
  counters.set_cache_misses(store.misses);
  counters.set_evictions(store.evictions);
  counters.set_resident_bytes(store.resident_bytes);
  counters.set_expected_used(store.expected.used);
  counters.set_expected_wasted(store.expected.wasted);
  return counters;
}

grpc::Status ExpertService::RunByteStream(grpc::ServerContext* context,
                                          ByteStream* stream) {
  {
    MutexLock lock(mutex_);
    if (ended_) return {grpc::StatusCode::UNAVAILABLE, "shutting down"};
    streams_.insert(context);
  }
  const grpc::Status status = ServeStream(context, stream);
  MutexLock lock(mutex_);
  streams_.erase(context);
  return status;
}

grpc::Status ExpertService::ServeStream(grpc::ServerContext* context,
                                        ByteStream* stream) {
  using Received = LayerStream::Received;
  grpc::ByteBuffer bytes;
  grpc::Status status;
  const auto receive = [&](v1::NodeRequest* message) {
    if (!stream->Read(&bytes)) {
      return context->IsCancelled() ? Received::kBroken : Received::kEnd;
    }
    const size_t length = bytes.Length();
    if (grpc::SerializationTraits<v1::NodeRequest>::Deserialize(&bytes, message)
            .ok()) {
      return Received::kMessage;
    }
    status = {grpc::StatusCode::INVALID_ARGUMENT,
              "a message of " + std::to_string(length) +
                  " bytes is no NodeRequest; the stream ends"};
    return Received::kBroken;
  };
  const auto send = [stream](const v1::LayerReply& reply) {
    return stream->Write(reply);
  };
  const absl::Status served = LayerStream(context_, receive, send).Serve();
  return status.ok() ? ToGrpc(served) : status;
}

void ExpertService::EndStreams(absl::Duration drain) {
  context_.gate.Close();
  if (!context_.gate.WaitUntilEmpty(absl::Now() + drain)) {
    spdlog::warn("{} requests still ran after {}; they are cancelled",
                 context_.gate.num_inside(), absl::FormatDuration(drain));
  }
  MutexLock lock(mutex_);
  ended_ = true;
  for (grpc::ServerContext* context : streams_) context->TryCancel();
}

}  // namespace deltafin
