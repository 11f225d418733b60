// Nodes on a LAN in a box that hold their share alone, where the coordinator is
// the only machine with a way to Hugging Face. Needs root.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "absl/time/clock.h"
#include "common/net/grpc_status.h"
#include "proto/admin.grpc.pb.h"
#include "proto/inference.grpc.pb.h"
#include "tests/integration/lan_case.h"
#include "tests/integration/setup_case.h"
#include "tests/testing/mini_cluster.h"

namespace deltafin::testing {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(2);
constexpr uint64_t kNanoSlices = 12 * 64;

std::string HubEmulatorBinary() {
  // Beside the test's own folder of the build.
  return std::filesystem::canonical("/proc/self/exe")
             .parent_path()
             .parent_path() /
         "testing" / "hub_emulator";
}

class LanShareTest : public ::testing::TestWithParam<LanProfile> {
 protected:
  void SetUp() override {
    const absl::Status possible = LanBox::Possible();
    if (!possible.ok()) GTEST_SKIP() << "no LAN in a box: " << possible;
    auto cluster =
        LanCluster::Start(GetParam(), kLanNodes, {}, LanMembers::kSharing);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
    StartHub();
  }

  // At the coordinator's place, on its loopback interface.
  void StartHub() {
    auto hub = cluster_->box().Start(0, {HubEmulatorBinary(), NanoModelDir()});
    ASSERT_TRUE(hub.ok()) << hub.status();
    hub_ = *std::move(hub);
    const auto address = WaitForAddress(*hub_);
    ASSERT_TRUE(address.ok()) << address.status();
    reach_hub_.environment = {"HF_ENDPOINT=" + *address, "no_proxy=*"};
  }

  void Setup() {
    auto setup = cluster_->box().Start(
        0,
        {DeltafinBinary(), "setup", "--stream", "--model", "deltafin/k3-nano",
         "--dir", dir_.File("installed")},
        reach_hub_);
    ASSERT_TRUE(setup.ok()) << setup.status();
    const auto code = (*setup)->Wait(kPatience);
    ASSERT_TRUE(code.ok()) << code.status();
    ASSERT_EQ(*code, 0) << (*setup)->err();
  }

  v1::PlacementReport Placement() {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::seconds(30));
    v1::PlacementReport report;
    const absl::Status status =
        FromGrpc(v1::AdminService::NewStub(line_.channel)
                     ->GetPlacement(&context, {}, &report));
    EXPECT_TRUE(status.ok()) << status;
    return report;
  }

  bool IsFilled() {
    uint64_t wanted = 0;
    for (const auto& share : Placement().shares()) {
      if (share.slices_missing() > 0 ||
          share.slices_held() != share.slices_wanted()) {
        return false;
      }
      wanted += share.slices_wanted();
    }
    return wanted == kNanoSlices;
  }

  const TempDir dir_;
  std::unique_ptr<LanCluster> cluster_;
  std::unique_ptr<Process> hub_;
  ProcessOptions reach_hub_;
  std::unique_ptr<Process> server_;
  LanCluster::Line line_;
};

INSTANTIATE_TEST_SUITE_P(Profiles, LanShareTest,
                         ::testing::Values(LanProfile::kLan, LanProfile::kFast),
                         [](const auto& info) {
                           return LanProfileName(info.param);
                         });

TEST_P(LanShareTest, NodesWithoutAWayOutFillFromTheCoordinator) {
  Setup();
  auto server =
      cluster_->StartServer({"--model", dir_.File("installed")}, reach_hub_);
  ASSERT_TRUE(server.ok()) << server.status();
  server_ = *std::move(server);
  auto line = cluster_->CallServer();
  ASSERT_TRUE(line.ok()) << line.status();
  line_ = *std::move(line);
  const absl::Time deadline = absl::Now() + kPatience;
  while (!IsFilled() && absl::Now() < deadline) {
    absl::SleepFor(absl::Milliseconds(100));
  }
  EXPECT_TRUE(IsFilled()) << Placement().DebugString()
                          << cluster_->node(0).err();
  const auto stub = v1::InferenceService::NewStub(line_.channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::minutes(1));
  v1::GenerateRequest request;
  for (const uint32_t id : {1063u, 315u}) request.mutable_ids()->add_ids(id);
  request.set_max_new_tokens(20);
  request.set_ignore_eos(true);
  const auto reader = stub->Generate(&context, request);
  nlohmann::json ids = nlohmann::json::array();
  v1::GenerateReply reply;
  while (reader->Read(&reply)) {
    if (reply.has_token()) ids.push_back(reply.id());
  }
  const grpc::Status status = reader->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(ids, UndisturbedReport(ShortLanPrompt(20))["output_ids"]);
}

}  // namespace
}  // namespace deltafin::testing
