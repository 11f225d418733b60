// ClusterService over a real server in this process.

#include "coordinator/cluster/cluster_service.h"

#include <grpcpp/grpcpp.h>

#include "common/net/server_lifecycle.h"
#include "tests/unit/coordinator/cluster/registry_fixture.h"

namespace deltafin::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ClusterServiceTest : public RegistryTest {
 protected:
  ClusterServiceTest() : service_(*registry_) {
    grpc::Service* const services[] = {&service_};
    auto server = ServerLifecycle::Start({}, services);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    stub_ = v1::ClusterService::NewStub(server_->InProcessChannel());
  }

  grpc::Status Join(const v1::JoinRequest& request, v1::JoinReply* reply) {
    grpc::ClientContext context;
    return stub_->Join(&context, request, reply);
  }
  grpc::Status Heartbeat(const v1::HeartbeatRequest& request,
                         v1::HeartbeatReply* reply) {
    grpc::ClientContext context;
    return stub_->Heartbeat(&context, request, reply);
  }

  ClusterService service_;
  std::unique_ptr<ServerLifecycle> server_;
  std::unique_ptr<v1::ClusterService::Stub> stub_;
};

TEST_F(ClusterServiceTest, ANodeJoinsBeatsAndLeaves) {
  v1::JoinReply joined;
  ASSERT_TRUE(Join(JoinOf(1), &joined).ok());
  EXPECT_EQ(joined.coordinator_id().size(), 32u);
  v1::HeartbeatRequest beat = BeatOf(JoinOf(1));
  beat.set_round_trip_us(250);
  v1::HeartbeatReply reply;
  ASSERT_TRUE(Heartbeat(beat, &reply).ok());
  EXPECT_EQ(reply.state(), "serving");
  EXPECT_EQ(registry_->health().nodes(0).round_trip_p50_us(), 250u);
  v1::LeaveRequest leave;
  leave.set_node_id("id-1");
  leave.set_incarnation(1);
  v1::LeaveReply left;
  grpc::ClientContext context;
  ASSERT_TRUE(stub_->Leave(&context, leave, &left).ok());
  EXPECT_THAT(Listed(), IsEmpty());
}

TEST_F(ClusterServiceTest, ANodeIsToldWhatToCopy) {
  Serve(JoinOf(1));
  v1::JoinRequest empty = JoinOf(2);
  SliceSet(1, 2, 3, 4).ToProto(empty.mutable_holdings());
  Serve(empty);
  registry_->Tick();
  v1::NextCopiesRequest request;
  request.set_node_id("id-2");
  request.set_incarnation(1);
  request.set_max_orders(256);
  v1::NextCopiesReply reply;
  {
    grpc::ClientContext context;
    const grpc::Status status = stub_->NextCopies(&context, request, &reply);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }
  EXPECT_EQ(reply.missing_slices(), 12u);
  EXPECT_GT(reply.orders_size(), 0);
  request.set_incarnation(2);
  grpc::ClientContext context;
  EXPECT_EQ(stub_->NextCopies(&context, request, &reply).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(ClusterServiceTest, ErrorsKeepTheirCodesAndMessages) {
  v1::JoinReply joined;
  v1::JoinRequest join = JoinOf(1);
  join.set_home("nowhere");
  grpc::Status status = Join(join, &joined);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("home"));

  join = JoinOf(1);
  join.mutable_identity()->set_wire_version(kWireVersion + 1);
  status = Join(join, &joined);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(),
              HasSubstr(std::to_string(kWireVersion + 1)));

  v1::HeartbeatReply reply;
  status = Heartbeat(BeatOf(JoinOf(1)), &reply);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), HasSubstr("join again"));
}

}  // namespace
}  // namespace deltafin::testing
