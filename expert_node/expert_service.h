// expert_node/expert_service.h
//
// The gRPC face of an expert node: handshake, counters, and the long-lived
// streams, each of which is a LayerStream. Thread-safe.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/sync_stream.h>

#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "expert_node/layer_stream.h"
#include "expert_node/slice_sender.h"
#include "proto/expert.grpc.pb.h"

namespace deltafin {

class ExpertService final : public v1::ExpertService::Service {
 public:
  // `identity`: what the handshake answers. The store counts what is read;
  // everything must outlive the service.
  ExpertService(const v1::HandshakeReply& identity,
                const LayerStreamContext& context, const TieredStore& store,
                SliceSender& slices);

  // OK or FAILED_PRECONDITION naming the field, both values and what to do.
  grpc::Status Handshake(grpc::ServerContext* context,
                         const v1::HandshakeRequest* request,
                         v1::HandshakeReply* reply) override;
  grpc::Status GetCounters(grpc::ServerContext* context,
                           const v1::GetCountersRequest* request,
                           v1::NodeCounters* reply) override;

  // Errors: those of SliceSender::Send.
  grpc::Status ReadSlices(grpc::ServerContext* context,
                          const v1::ReadSlicesRequest* request,
                          grpc::ServerWriter<v1::SliceBytes>* writer) override;

  v1::NodeCounters counters() const;

  // Answers new layer requests with UNAVAILABLE, waits up to `drain` for those
  // inside, then ends every stream. Blocks. Before the server's own shutdown,
  // which would wait for the streams.
  void EndStreams(absl::Duration drain);

 private:
  using ByteStream = grpc::ServerReaderWriter<v1::LayerReply, grpc::ByteBuffer>;

  // RunLayers with requests as bytes, so that bytes that are no NodeRequest end
  // the stream with a status instead of looking like its end.
  grpc::Status RunByteStream(grpc::ServerContext* context, ByteStream* stream);
  grpc::Status ServeStream(grpc::ServerContext* context, ByteStream* stream);

  const v1::HandshakeReply identity_;
  const LayerStreamContext context_;
  const TieredStore& store_;
  SliceSender& slices_;
  Mutex mutex_;
  absl::flat_hash_set<grpc::ServerContext*> streams_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace deltafin
