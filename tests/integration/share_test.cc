// Nodes that start with an empty folder and no model: they learn the model from
// the coordinator, compute from the first moment, and fill exactly their share.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>

#include "absl/time/clock.h"
#include "common/base/file_io.h"
#include "common/net/grpc_status.h"
#include "proto/admin.grpc.pb.h"
#include "tests/integration/joined_cluster.h"
#include "tests/integration/metrics_page.h"
#include "tests/integration/setup_case.h"
#include "tests/integration/suspect_lines.h"
#include "tests/testing/mini_cluster.h"
#include "tests/testing/temp_dir.h"

namespace deltafin::testing {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Minutes(2);
constexpr uint64_t kNanoSlices = 12 * 64;  // one for each expert
constexpr uint64_t kNanoSliceBytes = 51 * 32 * 3;
const Words kMetrics = {"--metrics", "127.0.0.1:0"};
// Copying begins once members of a coordinator before could be back: soon.
const Words kSoon = {"--heartbeat-ms", "300", "--gone-after-ms", "1500"};
const std::vector<std::string> kNodes = {"a", "b", "c", "d"};

v1::GenerateRequest SomePrompt() { return IdsRequest({3, 40, 500, 60}, 16); }

// So long that it is far from its end when it is disturbed, with nodes that
// hold each reply back.
v1::GenerateRequest LongAnswer() {
  v1::GenerateRequest request = IdsRequest({1063, 315}, 200);
  request.set_ignore_eos(true);
  return request;
}
const Words kSlowReplies = {"--test-reply-delay-us", "2000:7"};
constexpr int kDisturbedAt = 5;  // tokens

// What one process generates from the model.
std::vector<uint32_t> ExpectedIds(
    const std::string& model,
    const v1::GenerateRequest& request = SomePrompt()) {
  ServeProcess server({"--model", model});
  const auto generated = Generate(server, request);
  EXPECT_TRUE(generated.ok()) << generated.status();
  return generated.ok() ? generated->ids : std::vector<uint32_t>();
}

class ShareTest : public ::testing::Test {
 protected:
  void Serve(const Words& flags, const ProcessOptions& options = {}) {
    cluster_ = std::make_unique<JoinedCluster>(Join(kMetrics, flags), options);
  }
  void StartNodes(const Words& flags = {}) {
    for (const std::string& name : kNodes) {
      cluster_->StartSharingNode(name, Join(kMetrics, flags));
    }
  }

  v1::PlacementReport Placement() {
    const auto stub = v1::AdminService::NewStub(grpc::CreateChannel(
        cluster_->server().address(), grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::seconds(30));
    v1::PlacementReport report;
    const absl::Status status =
        FromGrpc(stub->GetPlacement(&context, {}, &report));
    EXPECT_TRUE(status.ok()) << status;
    return report;
  }

  // Until every node holds its share; `num_slices` of all nodes.
  void WaitUntilFilled(uint64_t num_slices) {
    const absl::Time deadline = absl::Now() + kPatience;
    v1::PlacementReport report;
    const auto is_filled = [&] {
      report = Placement();
      uint64_t wanted = 0;
      for (const auto& share : report.shares()) {
        if (share.slices_missing() > 0) return false;
        wanted += share.slices_wanted();
      }
      return wanted == num_slices;
    };
    while (!is_filled() && absl::Now() < deadline) {
      absl::SleepFor(absl::Milliseconds(50));
    }
    EXPECT_TRUE(is_filled())
        << report.DebugString() << cluster_->node("a").err();
  }
  double HeldSlices() {
    double held = 0;
    for (const std::string& name : kNodes) {
      held += MetricOf(ScrapeMetrics(cluster_->node(name)),
                       "deltafin_node_held_slices");
    }
    return held;
  }

  double BytesSentByCoordinator() {
    return MetricOf(ScrapeMetrics(cluster_->server().process()),
                    "deltafin_coordinator_sent_slice_bytes_total");
  }
  double BytesSentByNodes(const std::string& but = "") {
    double bytes = 0;
    for (const std::string& name : kNodes) {
      if (name == but) continue;
      bytes += MetricOf(ScrapeMetrics(cluster_->node(name)),
                        "deltafin_node_sent_slice_bytes_total");
    }
    return bytes;
  }

  double BytesMoved(const std::string& but = "") {
    return BytesSentByCoordinator() + BytesSentByNodes(but);
  }

  void Drain(const std::string& name) {
    const auto address = WaitForAddress(cluster_->node(name));
    ASSERT_TRUE(address.ok()) << address.status();
    const ProcessResult drained = RunDeltafin(
        {"drain", *address, "--coordinator", cluster_->server().address()});
    EXPECT_EQ(drained.exit_code, 0) << drained.err;
    EXPECT_THAT(drained.out, HasSubstr("may be switched off"));
  }

  // Kills a node while a text comes, which must not show nor cost a fetch.
  void ExpectTextWithoutNode(const std::string& name) {
    const std::vector<uint32_t> expected =
        ExpectedIds(NanoModelDir(), LongAnswer());
    const auto address = WaitForAddress(cluster_->node(name));
    ASSERT_TRUE(address.ok()) << address.status();
    const double moved = BytesMoved(name);
    const size_t begun = cluster_->server().process().err().size();
    EXPECT_EQ(IdsOfLongAnswer([&] { cluster_->KillNode(name); }), expected);
    const std::string log = cluster_->server().process().err().substr(begun);
    if (SuspectLines(log, *address) == 0) {
      EXPECT_EQ(BytesMoved(name), moved) << log;
    } else {
      std::printf("other nodes looked silent: what they fetch is their own\n");
    }
  }

  // Calls `disturb` once some tokens have come.
  std::vector<uint32_t> IdsOfLongAnswer(const std::function<void()>& disturb) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::minutes(2));
    const auto reader =
        cluster_->server().stub().Generate(&context, LongAnswer());
    std::vector<uint32_t> ids;
    v1::GenerateReply reply;
    while (reader->Read(&reply)) {
      if (!reply.has_token()) continue;
      ids.push_back(reply.id());
      if (ids.size() == kDisturbedAt) disturb();
    }
    const absl::Status status = FromGrpc(reader->Finish());
    EXPECT_TRUE(status.ok()) << status;
    return ids;
  }

  void ExpectText(const std::vector<uint32_t>& ids) {
    const auto generated = Generate(cluster_->server(), SomePrompt());
    ASSERT_TRUE(generated.ok()) << generated.status();
    EXPECT_EQ(generated->ids, ids);
  }

  const TempDir dir_;
  std::unique_ptr<JoinedCluster> cluster_;
};

TEST_F(ShareTest, EmptyNodesWorkFromTheFirstMomentAndFillTheirShare) {
  const std::vector<uint32_t> ids = ExpectedIds(NanoModelDir());
  Serve(kSoon);
  StartNodes();
  cluster_->WaitForServing(4);
  ExpectText(ids);
  WaitUntilFilled(kNanoSlices);
  ExpectText(ids);
  const double held = HeldSlices();
  EXPECT_GE(held, kNanoSlices);
  EXPECT_LE(BytesMoved(), 1.02 * held * kNanoSliceBytes);  // nothing twice
  EXPECT_THAT(cluster_->node("a").err(),
              HasSubstr("0.0 % of the model; still filling"));
  const auto says_so = [](std::string_view, std::string_view err) {
    return err.find("holds its whole share of the model") != err.npos;
  };
  const absl::Status said =
      cluster_->node("a").WaitForOutput(says_so, absl::Minutes(1));
  EXPECT_TRUE(said.ok()) << said;
  // What they have they keep.
  for (const std::string& name : kNodes) cluster_->StopNode(name);
  StartNodes();
  cluster_->WaitForServing(4);
  EXPECT_GE(HeldSlices(), held);
  ExpectText(ids);
}

TEST_F(ShareTest, ANodeKilledWhileItFillsGoesOnWhereItWas) {
  Serve(Join(kSoon, {"--copy-budget", "1200K"}));
  StartNodes();
  cluster_->WaitForHealth([](const v1::ClusterHealth& health) {
    return health.nodes_size() == 4 &&
           std::all_of(health.nodes().begin(), health.nodes().end(),
                       [](const v1::NodeHealth& node) {
                         return node.load().owned_slices() >= 20;
                       });
  });
  cluster_->KillNode("b");
  cluster_->StartSharingNode("b", kMetrics);
  EXPECT_GE(
      MetricOf(ScrapeMetrics(cluster_->node("b")), "deltafin_node_held_slices"),
      20);
  WaitUntilFilled(kNanoSlices);
  // The run under way when it was killed is fetched again.
  EXPECT_LE(BytesSentByCoordinator(),
            (1.02 * HeldSlices() + 2) * kNanoSliceBytes);
}

TEST_F(ShareTest, FurtherCopiesComeFromNodesToo) {
  Serve(Join(kSoon, {"--copies", "2"}));
  StartNodes();
  WaitUntilFilled(2 * kNanoSlices);
  EXPECT_GT(BytesSentByNodes(), 0);
  EXPECT_LE(BytesMoved(), 1.02 * HeldSlices() * kNanoSliceBytes);
}

TEST_F(ShareTest, ADrainedNodeMayDieInTheMiddleOfAText) {
  Serve(kSoon);
  StartNodes(kSlowReplies);
  cluster_->WaitForServing(4);
  Drain("c");
  WaitUntilFilled(kNanoSlices);  // with the cut of three
  ExpectTextWithoutNode("c");
}

TEST_F(ShareTest, WithTwoCopiesAKilledNodeCostsNoFetch) {
  Serve(Join(kSoon, {"--copies", "2"}));
  StartNodes(kSlowReplies);
  WaitUntilFilled(2 * kNanoSlices);
  ExpectTextWithoutNode("d");
}

TEST_F(ShareTest, DamagedRecordsAreTakenFromAnotherOwner) {
  const std::vector<uint32_t> ids = ExpectedIds(NanoModelDir());
  Serve(Join(kSoon, {"--copies", "2"}));
  StartNodes();
  WaitUntilFilled(2 * kNanoSlices);
  cluster_->KillNode("a");
  const std::string records = cluster_->FolderOf("a") + "/experts";
  for (const auto& file : std::filesystem::directory_iterator(records)) {
    if (file.path().extension() != ".experts") continue;
    const std::string noise(std::filesystem::file_size(file.path()), 'x');
    ASSERT_TRUE(WriteFileAtomically(file.path().string(), noise).ok());
  }
  cluster_->StartSharingNode("a", kMetrics);
  cluster_->WaitForServing(4);
  // It drops what it reads, says where that was, and copies it again.
  const auto told = [&] {
    const std::string err = cluster_->node("a").err();
    return err.find("differ from their digest") != err.npos &&
           err.find(records + "/layer-") != err.npos;
  };
  const absl::Time deadline = absl::Now() + kPatience;
  do {
    ExpectText(ids);
  } while (!told() && absl::Now() < deadline);
  EXPECT_TRUE(told()) << cluster_->node("a").err();
  WaitUntilFilled(2 * kNanoSlices);
  ExpectText(ids);
}

TEST_F(ShareTest, AStreamingCoordinatorFetchesEachExpertOnceForAllNodes) {
  const std::string released = dir_.File("released");
  MakeTinyModel(released, 5, {"moe_intermediate_size=544"});
  const std::vector<uint32_t> ids = ExpectedIds(released);
  HubEmulatorOptions options;
  options.directory = released;
  const auto hub = HubEmulator::Start(options);
  ASSERT_TRUE(hub.ok()) << hub.status();
  const std::string installed = dir_.File("installed");
  const ProcessResult setup = RunWith(
      {"setup", "--stream", "--model", "deltafin/k3-nano", "--dir", installed},
      ReachHub(**hub));
  ASSERT_EQ(setup.exit_code, 0) << setup.err;
  const int before = (*hub)->num_cdn_requests();
  Serve(Join(kSoon, {"--model", installed}), ReachHub(**hub));
  StartNodes();
  constexpr uint64_t kSlices = 12 * 24 * 3;
  WaitUntilFilled(kSlices);
  EXPECT_EQ((*hub)->num_cdn_requests() - before, 12 * 24);
  ExpectText(ids);
  EXPECT_EQ((*hub)->num_cdn_requests() - before, 12 * 24);
}

TEST_F(ShareTest, ADriveThatIsFullIsSaidOnceAndServesAllTheSame) {
  const std::vector<uint32_t> ids = ExpectedIds(NanoModelDir());
  Serve(kSoon);
  // Room for 50 slices each.
  StartNodes({"--quota", std::to_string(50 * kNanoSliceBytes)});
  // A node that looks slow at its start may have no share.
  const auto is_full = [this](const std::string& name) {
    return cluster_->node(name).err().find("no room for") != std::string::npos;
  };
  const absl::Time deadline = absl::Now() + kPatience;
  while (std::none_of(kNodes.begin(), kNodes.end(), is_full)) {
    ASSERT_LT(absl::Now(), deadline);
    absl::SleepFor(absl::Milliseconds(20));
  }
  ExpectText(ids);
  for (const std::string& name : kNodes) {
    const std::string page = ScrapeMetrics(cluster_->node(name));
    EXPECT_LE(MetricOf(page, "deltafin_node_held_slices"), 50) << name;
  }
}

TEST_F(ShareTest, AFolderOfAnotherModelIsRefused) {
  Serve({});
  const std::string folder = cluster_->FolderOf("a");
  std::filesystem::create_directories(folder + "/model");
  std::filesystem::copy(NanoModelDir() + "/config.json",
                        folder + "/model/config.json");
  ASSERT_TRUE(
      WriteFileAtomically(folder + "/format", "deltafin-node-data 1\n").ok());
  const std::string manifest =
      "config.json 3202 " + std::string(64, '0') + "\n";
  ASSERT_TRUE(WriteFileAtomically(folder + "/model/manifest", manifest).ok());
  cluster_->StartSharingNode("a");
  const auto code = cluster_->node("a").Wait(kPatience);
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 69);
  EXPECT_THAT(cluster_->node("a").err(), HasSubstr("another --data folder"));
}

}  // namespace
}  // namespace deltafin::testing
