#include "expert_node/peer_client.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <thread>

#include "common/net/grpc_status.h"
#include "common/net/server_lifecycle.h"
#include "expert_node/slice_service.h"
#include "tests/unit/expert_node/storage/record_fixture.h"

namespace deltafin {
namespace {

using ::testing::HasSubstr;

constexpr ExpertShape kShape = kRaggedShape;
constexpr ExpertKey kKey = {2, 3};
constexpr SliceRun kAll = {0, 3};
const std::string kDigest(64, 'a');

// Tells of owners as the test likes.
class FakeCluster final : public v1::ClusterService::Service {
 public:
  grpc::Status FindOwners(grpc::ServerContext*,
                          const v1::FindOwnersRequest* request,
                          v1::FindOwnersReply* reply) override {
    asked = *request;
    *reply = answer;
    return ToGrpc(status);
  }
  grpc::Status NextCopies(grpc::ServerContext*,
                          const v1::NextCopiesRequest* request,
                          v1::NextCopiesReply* reply) override {
    next = *request;
    reply->set_missing_slices(77);
    return grpc::Status::OK;
  }

  v1::FindOwnersRequest asked;
  v1::NextCopiesRequest next;
  v1::FindOwnersReply answer;
  absl::Status status;
};

class PeerClientTest : public ::testing::Test {
 protected:
  PeerClientTest() {
    grpc::Service* const services[] = {&cluster_, &slices_};
    auto server = ServerLifecycle::Start({"127.0.0.1:0"}, services);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    PeerClientOptions options;
    options.coordinator = server_->address();
    options.node_id = "me";
    options.incarnation = 5;
    options.manifest_digest = kDigest;
    options.shape = kShape;
    client_ = std::make_unique<PeerClient>(options);
    store_ = std::make_unique<PeerStore>(kShape, *client_);
  }
  void Answer(SliceRun run, const std::vector<std::string>& owners) {
    v1::CopyOrder& order = *cluster_.answer.add_runs();
    order.set_first_slice(run.first);
    order.set_num_slices(run.count);
    for (const std::string& owner : owners) order.add_owners(owner);
  }

  GeneratedStore experts_{kShape};
  SliceSender sender_{SmallSpec(kShape), kDigest, experts_};
  SliceService slices_{sender_};
  FakeCluster cluster_;
  std::unique_ptr<ServerLifecycle> server_;
  std::unique_ptr<PeerClient> client_;
  std::unique_ptr<PeerStore> store_;
};

TEST_F(PeerClientTest, BringsSlicesFromNodesAndFromTheCoordinatorsFolder) {
  Answer({0, 1}, {"127.0.0.1:1", server_->address()});
  Answer({1, 2}, {kCoordinatorOwner});
  const ReadResult got = ReadRun(*store_, kKey, kAll);
  ASSERT_TRUE(got.bytes.ok()) << got.bytes.status();
  EXPECT_TRUE(got.ready == PackedSlices(kShape, kKey, kAll));
  EXPECT_EQ(store_->failed_owners(), 1u);  // where nobody listens
  EXPECT_EQ(cluster_.asked.node_id(), "me");
  EXPECT_EQ(cluster_.asked.incarnation(), 5u);
  EXPECT_EQ(cluster_.asked.layer(), 2u);
  EXPECT_EQ(cluster_.asked.expert(), 3u);
  EXPECT_EQ(cluster_.asked.num_slices(), 3u);
}

TEST_F(PeerClientTest, AsksForTheNextCopies) {
  const auto reply = client_->NextCopies(12, true);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->missing_slices(), 77u);
  EXPECT_EQ(cluster_.next.node_id(), "me");
  EXPECT_EQ(cluster_.next.max_orders(), 12u);
  EXPECT_TRUE(cluster_.next.has_source());
}

TEST_F(PeerClientTest, RefusesAnswersThatDoNotCoverTheRun) {
  const auto code = [this] {
    return client_->FindOwners(kKey, kAll).status().code();
  };
  EXPECT_EQ(code(), absl::StatusCode::kInternal);
  Answer({0, 2}, {});
  EXPECT_EQ(code(), absl::StatusCode::kInternal);
  Answer({1, 1}, {});
  EXPECT_EQ(code(), absl::StatusCode::kInternal);
  cluster_.answer.clear_runs();
  Answer({0, 4}, {});
  EXPECT_EQ(code(), absl::StatusCode::kInternal);
  cluster_.answer.clear_runs();
  Answer(kAll, {});
  EXPECT_EQ(code(), absl::StatusCode::kOk);
}

TEST_F(PeerClientTest, TriesTheFirstOwnersOfAnEndlessList) {
  Answer(kAll, std::vector<std::string>(100, "127.0.0.1:1"));
  const auto owned = client_->FindOwners(kKey, kAll);
  ASSERT_TRUE(owned.ok()) << owned.status();
  EXPECT_EQ(owned->front().owners.size(), 8u);
}

TEST_F(PeerClientTest, CallsNoOtherMachineInPlaintext) {
  Answer(kAll, {"192.0.2.1:7400"});
  const absl::Status status = ReadRun(*store_, kKey, kAll).bytes.status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("192.0.2.1"));
}

TEST_F(PeerClientTest, AnotherModelIsAnErrorOfTheOwner) {
  PeerClientOptions options;
  options.coordinator = server_->address();
  options.manifest_digest = std::string(64, 'b');
  options.shape = kShape;
  PeerClient other(options);
  const absl::Status status =
      other.ReadSlices(kCoordinatorOwner, kKey, kAll, std::nullopt,
                       [](int, std::span<const uint8_t>, const Xxh128&) {
                         ADD_FAILURE() << "a slice came";
                         return absl::OkStatus();
                       });
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
}

TEST_F(PeerClientTest, CancelEndsWhatRunsAndWhatComes) {
  experts_.Hold();
  std::thread reader([this] {
    const absl::Status status =
        client_->ReadSlices(kCoordinatorOwner, kKey, kAll, std::nullopt,
                            [](int, std::span<const uint8_t>, const Xxh128&) {
                              return absl::OkStatus();
                            });
    EXPECT_TRUE(absl::IsCancelled(status)) << status;
  });
  experts_.WaitForReads(1);
  client_->Cancel();
  reader.join();
  experts_.Open();
  EXPECT_TRUE(absl::IsCancelled(client_->NextCopies(1, false).status()));
}

}  // namespace
}  // namespace deltafin
