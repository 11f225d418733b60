// coordinator/frontend/inference_service.h
//
// Text generation over gRPC (proto/inference.proto). Thread-safe: calls parse,
// enqueue and return; the engine's tokens are written as the client reads them.
#pragma once

#include <cstddef>

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

class InferenceService final : public v1::InferenceService::CallbackService {
 public:
  // `tokenizer` and `scheduler` must outlive the service, and the service the
  // server. Shut the server down before the scheduler is destroyed.
  InferenceService(InferenceServiceOptions options, const Tokenizer& tokenizer,
                   Scheduler& scheduler);

  // Errors: those of ParseGenerateRequest, TextSink::Create and
  // Scheduler::Submit; then how generation ended.
  grpc::ServerWriteReactor<v1::GenerateReply>* Generate(
      grpc::CallbackServerContext* context,
      const v1::GenerateRequest* request) override;
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context,
                                     const v1::TokenizeRequest* request,
                                     v1::TokenizeReply* reply) override;
  grpc::ServerUnaryReactor* Detokenize(grpc::CallbackServerContext* context,
                                       const v1::DetokenizeRequest* request,
                                       v1::DetokenizeReply* reply) override;
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context,
                                     const v1::GetModelRequest* request,
                                     v1::Model* reply) override;

 private:
  const InferenceServiceOptions options_;
  const Tokenizer& tokenizer_;
  Scheduler& scheduler_;
};

}  // namespace deltafin
