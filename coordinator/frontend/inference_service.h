// coordinator/frontend/inference_service.h
//
// Text generation over gRPC (proto/inference.proto). Thread-safe: calls parse,
// enqueue and return; the engine's tokens are written as the client reads them.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "coordinator/engine/scheduler.h"
#include "coordinator/frontend/generate_request.h"
#include "coordinator/frontend/tokenizer.h"
#include "proto/inference.grpc.pb.h"

namespace deltafin {

struct InferenceServiceOptions {
  v1::Model model;  // what GetModel answers
  GenerateDefaults defaults;
  // Serialized replies that a client may leave unread before its request ends
  // with RESOURCE_EXHAUSTED: some ten thousand tokens.
  size_t max_unread_bytes = size_t{1} << 20;
};

// Every method takes its request as bytes: gRPC's own parsing answers bytes
// that are no message with UNIMPLEMENTED.
using RawInferenceService =
    v1::InferenceService::WithRawCallbackMethod_Generate<
        v1::InferenceService::WithRawCallbackMethod_Tokenize<
            v1::InferenceService::WithRawCallbackMethod_Detokenize<
                v1::InferenceService::WithRawCallbackMethod_GetModel<
                    v1::InferenceService::Service>>>>;

class InferenceService final : public RawInferenceService {
 public:
  // `tokenizer` and `scheduler` must outlive the service, and the service the
  // server. Shut the server down before the scheduler is destroyed.
  InferenceService(InferenceServiceOptions options, const Tokenizer& tokenizer,
                   Scheduler& scheduler);

  // Errors of all methods: INVALID_ARGUMENT for bytes that are no message of
  // the method's request type.

  // Errors: those of ParseGenerateRequest, TextSink::Create and
  // Scheduler::Submit; then how generation ended.
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Generate(
      grpc::CallbackServerContext* context,
      const grpc::ByteBuffer* request) override;
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context,
                                     const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* reply) override;
  grpc::ServerUnaryReactor* Detokenize(grpc::CallbackServerContext* context,
                                       const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* reply) override;
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context,
                                     const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* reply) override;

 private:
  absl::StatusOr<std::vector<int32_t>> EncodeMessages(
      const v1::TokenizeRequest& request) const;
  absl::StatusOr<std::vector<int32_t>> EncodeText(
      const v1::TokenizeRequest& request) const;
  absl::Status TokenizeText(const v1::TokenizeRequest& request,
                            v1::TokenizeReply* reply) const;
  absl::Status DetokenizeIds(const v1::DetokenizeRequest& request,
                             v1::DetokenizeReply* reply) const;

  const InferenceServiceOptions options_;
  const Tokenizer& tokenizer_;
  Scheduler& scheduler_;
};

}  // namespace deltafin
