#include "common/net/server_lifecycle.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>

#include <string>

namespace deltafin {
namespace {

// Calls a unary method of a service for which no stubs are built.
grpc::Status CallRaw(std::shared_ptr<grpc::Channel> channel,
                     const std::string& method, const std::string& request,
                     std::string* reply) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const grpc::Slice slice(request);
  auto call = stub.PrepareUnaryCall(&context, method,
                                    grpc::ByteBuffer(&slice, 1), &queue);
  call->StartCall();
  grpc::ByteBuffer bytes;
  grpc::Status status;
  call->Finish(&bytes, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  grpc::Slice whole;
  if (status.ok() && bytes.DumpToSingleSlice(&whole).ok()) {
    reply->assign(whole.begin(), whole.end());
  }
  return status;
}

std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address) {
  return grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
}

// HealthCheckResponse{status}: field 1, 1 SERVING, 2 NOT_SERVING.
const std::string kServing = "\x08\x01";
const std::string kNotServing = "\x08\x02";

TEST(ServerLifecycleTest, ServesHealthOnAFreePort) {
  const auto server = ServerLifecycle::Start({"127.0.0.1:0"}, {});
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_GT((*server)->bound_port(), 0);
  EXPECT_EQ((*server)->address(),
            "127.0.0.1:" + std::to_string((*server)->bound_port()));
  const auto channel = ChannelTo((*server)->address());
  std::string reply;
  ASSERT_TRUE(
      CallRaw(channel, "/grpc.health.v1.Health/Check", "", &reply).ok());
  EXPECT_EQ(reply, kServing);
  (*server)->SetNotServing();
  ASSERT_TRUE(
      CallRaw(channel, "/grpc.health.v1.Health/Check", "", &reply).ok());
  EXPECT_EQ(reply, kNotServing);
}

TEST(ServerLifecycleTest, ServesInProcessWithoutAPort) {
  const auto server = ServerLifecycle::Start({}, {});
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_EQ((*server)->address(), "");
  std::string reply;
  ASSERT_TRUE(CallRaw((*server)->InProcessChannel(),
                      "/grpc.health.v1.Health/Check", "", &reply)
                  .ok());
  EXPECT_EQ(reply, kServing);
}

TEST(ServerLifecycleTest, SaysThatAPortIsInUse) {
  const auto first = ServerLifecycle::Start({"127.0.0.1:0"}, {});
  ASSERT_TRUE(first.ok());
  const auto second = ServerLifecycle::Start({(*first)->address()}, {});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(std::string(second.status().message()).find((*first)->address()),
            std::string::npos);
}

TEST(ServerLifecycleTest, RefusesToListenBeyondLoopback) {
  const auto server = ServerLifecycle::Start({"0.0.0.0:0"}, {});
  EXPECT_EQ(server.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ServerLifecycleTest, AnswersNoMoreAfterShutdown) {
  const auto server = ServerLifecycle::Start({"127.0.0.1:0"}, {});
  ASSERT_TRUE(server.ok());
  (*server)->Shutdown(absl::Seconds(1));
  (*server)->Shutdown(absl::Seconds(1));
  std::string reply;
  EXPECT_EQ(CallRaw(ChannelTo((*server)->address()),
                    "/grpc.health.v1.Health/Check", "", &reply)
                .error_code(),
            grpc::StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace deltafin
