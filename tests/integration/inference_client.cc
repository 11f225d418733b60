#include "tests/integration/inference_client.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>

#include "common/net/grpc_status.h"
#include "tests/testing/mini_cluster.h"

namespace deltafin::testing {

ServeProcess::ServeProcess(const Words& flags, const std::string& listen,
                           const ProcessOptions& options) {
  auto process = Process::Start(
      Join({DeltafinBinary(), "serve", "--listen", listen}, flags), options);
  EXPECT_TRUE(process.ok()) << process.status();
  process_ = *std::move(process);
  const absl::StatusOr<std::string> address = WaitForAddress(*process_);
  EXPECT_TRUE(address.ok()) << address.status();
  if (!address.ok()) return;
  address_ = *address;
  stub_ = v1::InferenceService::NewStub(
      grpc::CreateChannel(address_, grpc::InsecureChannelCredentials()));
}

absl::StatusOr<Generated> Generate(ServeProcess& server,
                                   const v1::GenerateRequest& request) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::minutes(3));
  const auto reader = server.stub().Generate(&context, request);
  Generated generated;
  v1::GenerateReply reply;
  while (reader->Read(&reply)) {
    if (reply.has_token()) generated.ids.push_back(reply.id());
    generated.text += reply.text_delta();
    generated.reasoning += reply.reasoning_delta();
    generated.last = reply;
  }
  const absl::Status status = FromGrpc(reader->Finish());
  if (!status.ok()) return status;
  return generated;
}

v1::GenerateRequest IdsRequest(const std::vector<uint32_t>& ids,
                               uint32_t max_new_tokens) {
  v1::GenerateRequest request;
  request.mutable_ids()->mutable_ids()->Assign(ids.begin(), ids.end());
  request.set_max_new_tokens(max_new_tokens);
  return request;
}

}  // namespace deltafin::testing
