#include "expert_node/slice_service.h"

#include "common/net/grpc_status.h"

namespace deltafin {

grpc::Status AnswerReadSlices(SliceSender& sender, grpc::ServerContext* context,
                              const v1::ReadSlicesRequest& request,
                              grpc::ServerWriter<v1::SliceBytes>* writer) {
  return ToGrpc(sender.Send(
      request, [context] { return context->IsCancelled(); },
      [writer](const v1::SliceBytes& slice) { return writer->Write(slice); }));
}

}  // namespace deltafin
