// Nodes on a LAN in a box that hold their share alone, from empty folders: the
// coordinator is the only machine with the model, or with a way to Hugging
// Face. Needs root.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>

#include "absl/time/clock.h"
#include "tests/integration/lan_case.h"
#include "tests/integration/lan_server.h"
#include "tests/integration/metrics_page.h"
#include "tests/integration/suspect_lines.h"
#include "tests/testing/mini_cluster.h"

namespace deltafin::testing {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(2);
constexpr uint64_t kNanoSlices = 12 * 64;  // one for each expert
constexpr int kMetricsPort = 9400;  // of every place, on its own loopback
constexpr int kTokens = 40;

Words Metrics() {
  return {"--metrics", "127.0.0.1:" + std::to_string(kMetricsPort)};
}

std::string HubEmulatorBinary() {
  // Beside the test's own folder of the build.
  return std::filesystem::canonical("/proc/self/exe")
             .parent_path()
             .parent_path() /
         "testing" / "hub_emulator";
}

int PortOf(const std::string& url) {
  return std::stoi(url.substr(url.rfind(':') + 1));
}

class LanShareTest : public ::testing::TestWithParam<LanProfile> {
 protected:
  void SetUp() override {
    const absl::Status possible = LanBox::Possible();
    if (!possible.ok()) GTEST_SKIP() << "no LAN in a box: " << possible;
    // Slow enough that disturbances come between tokens.
    auto cluster =
        LanCluster::Start(GetParam(), kLanNodes,
                          Join(Metrics(), {"--test-reply-delay-us", "2000:7"}),
                          LanMembers::kSharing);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
  }

  void Serve(const std::string& model, const Words& flags = {},
             const ProcessOptions& options = {}) {
    const Words all = Join(Join({"--model", model, "--heartbeat-ms", "300",
                                 "--gone-after-ms", "1500"},
                                Metrics()),
                           flags);
    auto server = LanServer::Start(*cluster_, all, options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  // Until no node lacks any of its share; `num_slices` of all of them.
  void WaitUntilFilled(uint64_t num_slices) {
    const absl::Time deadline = absl::Now() + kPatience;
    while (absl::Now() < deadline) {
      uint64_t wanted = 0;
      uint64_t missing = 0;
      const v1::PlacementReport report = server_->Placement();
      for (const auto& share : report.shares()) {
        wanted += share.slices_wanted();
        missing += share.slices_missing();
      }
      if (wanted == num_slices && missing == 0) return;
      absl::SleepFor(absl::Milliseconds(50));
    }
    ADD_FAILURE() << server_->Placement().DebugString()
                  << cluster_->node(0).err();
  }
  void WaitUntilHolds(int index, uint64_t num_slices) {
    const std::string name = cluster_->address(index);
    const absl::Time deadline = absl::Now() + kPatience;
    while (absl::Now() < deadline) {
      const v1::ClusterHealth health = server_->Health();
      for (const v1::NodeHealth& node : health.nodes()) {
        if (node.name() == name && node.load().owned_slices() >= num_slices) {
          return;
        }
      }
      absl::SleepFor(absl::Milliseconds(20));
    }
    ADD_FAILURE() << server_->Health().DebugString();
  }

  double Metric(int place, const std::string& name) {
    const auto page = cluster_->Get(place, kMetricsPort, "/metrics");
    EXPECT_TRUE(page.ok()) << page.status();
    return page.ok() ? MetricOf(*page, name) : -1;
  }
  // Bytes of experts that machines gave each other, nodes in `but` excepted.
  double BytesMoved(const std::vector<int>& but = {}) {
    double bytes = Metric(0, "deltafin_coordinator_sent_slice_bytes_total");
    for (int i = 0; i < kLanNodes; ++i) {
      if (std::count(but.begin(), but.end(), i) > 0) continue;
      bytes += Metric(i + 1, "deltafin_node_sent_slice_bytes_total");
    }
    return bytes;
  }

  // `disturb` while a text comes costs nobody a fetch, but for node `lost`.
  void ExpectNoFetch(int lost, const std::vector<int>& but,
                     const std::function<void(int tokens)>& disturb) {
    const double moved = BytesMoved(but);
    const size_t begun = server_->process().err().size();
    server_->ExpectUndisturbed(kTokens, disturb);
    const std::string log = server_->process().err().substr(begun);
    if (SuspectLines(log, cluster_->address(lost)) == 0) {
      EXPECT_EQ(BytesMoved(but), moved) << log;
    } else {
      std::printf("other nodes looked silent: what they fetch is their own\n");
    }
  }

  const TempDir dir_;
  std::unique_ptr<LanCluster> cluster_;
  std::unique_ptr<LanServer> server_;
};

INSTANTIATE_TEST_SUITE_P(Profiles, LanShareTest,
                         ::testing::Values(LanProfile::kLan, LanProfile::kFast),
                         [](const auto& info) {
                           return LanProfileName(info.param);
                         });

// Hugging Face at the coordinator's place, on its loopback interface.
class LanHub {
 public:
  explicit LanHub(LanCluster& cluster) : cluster_(cluster) {
    auto hub = cluster.box().Start(0, {HubEmulatorBinary(), NanoModelDir()});
    if (!hub.ok()) {
      ADD_FAILURE() << hub.status();
      return;
    }
    process_ = *std::move(hub);
    const auto address = WaitForAddress(*process_);
    EXPECT_TRUE(address.ok()) << address.status();
    address_ = address.value_or("");
  }
  ProcessOptions Reach() const {
    ProcessOptions options;
    options.environment = {"HF_ENDPOINT=" + address_, "no_proxy=*"};
    return options;
  }
  void Setup(const std::string& how, const std::string& dir) {
    auto setup =
        cluster_.box().Start(0,
                             {DeltafinBinary(), "setup", how, "--model",
                              "deltafin/k3-nano", "--dir", dir},
                             Reach());
    ASSERT_TRUE(setup.ok()) << setup.status();
    const auto code = (*setup)->Wait(kPatience);
    ASSERT_TRUE(code.ok()) << code.status();
    ASSERT_EQ(*code, 0) << (*setup)->err();
  }
  // Of all it sent.
  double BytesSent() {
    const auto answer = cluster_.Get(0, PortOf(address_), "/emulator/counts");
    EXPECT_TRUE(answer.ok()) << answer.status();
    if (!answer.ok()) return -1;
    const size_t body = answer->find("\r\n\r\n");
    return nlohmann::json::parse(answer->substr(body))["bytes_sent"];
  }

 private:
  LanCluster& cluster_;
  std::unique_ptr<Process> process_;
  std::string address_;
};

// All that the repository has.
double BytesOfRepository() {
  double bytes = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(NanoModelDir())) {
    if (entry.is_regular_file()) {
      bytes += static_cast<double>(entry.file_size());
    }
  }
  return bytes;
}

TEST_P(LanShareTest, OnlyTheCoordinatorHasAWayToTheHubAndItGivesAllOnce) {
  LanHub hub(*cluster_);
  const std::string installed = dir_.File("installed");
  hub.Setup(GetParam() == LanProfile::kLan ? "--stream" : "--full", installed);
  Serve(installed, {"--copy-budget", "1600K"}, hub.Reach());
  WaitUntilHolds(1, 20);
  cluster_->node(1).Signal(SIGKILL);
  ASSERT_TRUE(cluster_->Restart(1).ok());
  // Works while it fills.
  server_->ExpectUndisturbed(kTokens);
  server_->WaitForAll();
  WaitUntilFilled(kNanoSlices);
  server_->ExpectUndisturbed(kTokens);
  // One installation is 1.3 % less.
  EXPECT_LE(hub.BytesSent(), BytesOfRepository());
}

TEST_P(LanShareTest, NeitherNewPlacementsNorADrainedNodeShowInAText) {
  Serve(NanoModelDir());
  const v1::ClusterHealth before = server_->WaitForAll();
  // From empty folders on: what is copied changes with the placement.
  server_->ExpectUndisturbed(kTokens, [&](int tokens) {
    server_->BeginDrain(cluster_->address(tokens / 2 % kLanNodes),
                        tokens % 2 == 1);
  });  // the last one drains node 0
  EXPECT_GE(server_->Health().epoch(), before.epoch() + kTokens - 1);
  server_->BeginDrain(cluster_->address(0), /*undo=*/true);
  server_->Drain(cluster_->address(2));
  WaitUntilFilled(kNanoSlices);  // with the cut of three
  ExpectNoFetch(2, {2}, [&](int tokens) {
    if (tokens == 5) cluster_->node(2).Signal(SIGKILL);
  });
  ASSERT_TRUE(cluster_->node(2).Wait(kPatience).ok());
}

TEST_P(LanShareTest, WithTwoCopiesAPulledPlugCostsNoFetch) {
  Serve(NanoModelDir(), {"--copies", "2", "--keepalive-ms", "2000"});
  server_->WaitForAll();
  WaitUntilFilled(2 * kNanoSlices);
  ExpectNoFetch(3, {}, [&](int tokens) {
    if (tokens != 5) return;
    EXPECT_TRUE(cluster_->Down(3).ok());
  });
}

}  // namespace
}  // namespace deltafin::testing
