// expert_node/slice_service.h
//
// ExpertService of a machine that gives slices away and computes none: of a
// coordinator, for the nodes of its cluster. Only ReadSlices is answered.
// Thread-safe.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/sync_stream.h>

#include "expert_node/slice_sender.h"
#include "proto/expert.grpc.pb.h"

namespace deltafin {

// Answers one ReadSlices call.
grpc::Status AnswerReadSlices(SliceSender& sender, grpc::ServerContext* context,
                              const v1::ReadSlicesRequest& request,
                              grpc::ServerWriter<v1::SliceBytes>* writer);

class SliceService final : public v1::ExpertService::Service {
 public:
  // `sender` must outlive the service.
  explicit SliceService(SliceSender& sender) : sender_(sender) {}

  grpc::Status ReadSlices(grpc::ServerContext* context,
                          const v1::ReadSlicesRequest* request,
                          grpc::ServerWriter<v1::SliceBytes>* writer) override {
    return AnswerReadSlices(sender_, context, *request, writer);
  }

 private:
  SliceSender& sender_;
};

}  // namespace deltafin
