// What nodes with an installed model keep from one start to the next, what
// happens when that is damaged, and changing what they hold while they run.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "tests/integration/setup_case.h"
#include "tests/testing/mini_cluster.h"
#include "tests/testing/temp_dir.h"

namespace deltafin::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kNumExperts = 768;

class StorageTest : public ::testing::Test {
 protected:
  void SetUp() override { Install(dir_, "--full"); }

  void Install(const std::string& dir, const std::string& how) {
    const ProcessResult setup =
        RunDeltafin(Join({"setup", how, "--dir", dir}, FromNano()));
    ASSERT_EQ(setup.exit_code, 0) << setup.err;
  }
  std::unique_ptr<MiniCluster> StartNode(const std::string& dir,
                                         const Words& flags = {}) {
    MiniClusterOptions options;
    options.model_dir = dir;
    options.flags = flags;
    auto node = MiniCluster::Start(options);
    EXPECT_TRUE(node.ok()) << node.status();
    return node.ok() ? *std::move(node) : nullptr;
  }
  // Lets it write its ledger.
  void End(MiniCluster& node) {
    node.node(0).Signal(SIGTERM);
    const auto code = node.node(0).Wait(absl::Minutes(1));
    ASSERT_TRUE(code.ok()) << code.status();
    EXPECT_EQ(*code, 0) << node.node(0).err();
  }
  // Nothing is in memory after it but what it used.
  void ExpectTheRightText(const MiniCluster& nodes) {
    EXPECT_EQ(RunDeltafinJson({"run", "--model", NanoModelDir(), "--nodes",
                               nodes.addresses(), "--prompt", "It was a dark",
                               "--max-new-tokens", "12", "--read-ahead",
                               "off"})["output_sha256"],
              ReleasedOutput());
  }
  static std::string ReleasedOutput() {
    static const std::string output = OutputOf(NanoModelDir());
    return output;
  }
  nlohmann::json Experts(const Words& words, const MiniCluster& node) {
    return RunDeltafinJson(
        Join(Join({"experts"}, words), {"--node", node.address(0)}));
  }
  nlohmann::json Ledger(const std::string& dir) {
    return RunDeltafinJson({"experts", "show", dir, "--hottest", "100000"});
  }

  const TempDir folder_;
  const std::string dir_ = folder_.File("model");
  const std::string ledger_ = dir_ + "/experts/ledger";
};

TEST_F(StorageTest, WhatWasUsedIsInMemorySoonAfterARestart) {
  auto node = StartNode(dir_);
  ExpectTheRightText(*node);
  const v1::NodeCounters before = *node->Counters(0);
  ASSERT_GT(before.cache_misses(), 0u);
  End(*node);
  const nlohmann::json ledger = Ledger(dir_);
  EXPECT_EQ(ledger["held_experts"], kNumExperts);
  EXPECT_GT(ledger["used_experts"], 0);
  EXPECT_GT(ledger["hottest"][0]["uses"], ledger["hottest"].back()["uses"]);

  node = StartNode(dir_);
  for (int i = 0; i < 10'000; ++i) {
    if (node->Counters(0)->resident_bytes() == before.resident_bytes()) break;
    usleep(2000);
  }
  EXPECT_EQ(node->Counters(0)->resident_bytes(), before.resident_bytes());
  ExpectTheRightText(*node);
  EXPECT_EQ(node->Counters(0)->cache_misses(), 0u);
}

TEST_F(StorageTest, ANodeOverReleasedShardsLearnsInItsDataFolder) {
  const std::string data = folder_.File("data");
  auto node = StartNode(NanoModelDir(), {"--data", data});
  ExpectTheRightText(*node);
  const uint64_t resident = node->Counters(0)->resident_bytes();
  End(*node);
  node = StartNode(NanoModelDir(), {"--data", data});
  for (int i = 0; i < 10'000; ++i) {
    if (node->Counters(0)->resident_bytes() == resident) break;
    usleep(2000);
  }
  ExpectTheRightText(*node);
  EXPECT_EQ(node->Counters(0)->cache_misses(), 0u);
}

TEST_F(StorageTest, ServesWhateverHappensToTheLedger) {
  auto node = StartNode(dir_);
  ExpectTheRightText(*node);
  node->Kill(0);
  const auto for_files = [this](const std::function<void(const fs::path&)>& f) {
    for (const auto& file : fs::directory_iterator(ledger_)) f(file.path());
  };
  const std::vector<std::function<void()>> damages = {
      [] {},  // the kill
      [&] {
        for_files([](const fs::path& file) {
          fs::resize_file(file, fs::file_size(file) / 2);
        });
      },
      [&] {
        for_files([](const fs::path& file) {
          std::ofstream(file) << "nothing that anybody wrote";
        });
      },
      [&] { fs::remove_all(ledger_); },
      [&] {
        fs::remove_all(ledger_);
        std::ofstream(ledger_) << "in the way";
      },
  };
  for (const auto& damage : damages) {
    damage();
    node = StartNode(dir_);
    ASSERT_NE(node, nullptr);
    ExpectTheRightText(*node);
    node->Kill(0);
  }
  EXPECT_THAT(node->node(0).err(), HasSubstr("no ledger in"));
  const nlohmann::json doctor = RunDeltafinJson({"doctor", "--deep", dir_});
  EXPECT_EQ(doctor["experts_installed"], kNumExperts);
}

TEST_F(StorageTest, ServesBesideALedgerThatCannotBeWritten) {
  EXPECT_EQ(OutputOf(dir_), ReleasedOutput());  // makes it
  // Read-only for this one process, in a namespace that ends with it.
  const std::string script =
      "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\" || exit "
      "111; exec \"$@\"";
  const auto run =
      RunProcess({"/usr/bin/unshare", "--mount", "/bin/sh", "-c", script,
                  ledger_, DeltafinBinary(), "run", "--model", dir_, "--prompt",
                  "It was a dark", "--max-new-tokens", "12", "--json"},
                 absl::Minutes(2));
  ASSERT_TRUE(run.ok()) << run.status();
  if (run->exit_code == 111) GTEST_SKIP() << run->err;
  ASSERT_EQ(run->exit_code, 0) << run->err;
  EXPECT_EQ(nlohmann::json::parse(run->out)["output_sha256"], ReleasedOutput());
  EXPECT_THAT(run->err, HasSubstr("no ledger in"));
}

TEST_F(StorageTest, TheLedgerIsMadeAnewByHand) {
  auto node = StartNode(dir_);
  ExpectTheRightText(*node);
  const Words rebuild = {DeltafinNodeBinary(), "--rebuild-ledger", "--model",
                         dir_};
  auto refused = RunProcess(rebuild, absl::Minutes(1));
  ASSERT_TRUE(refused.ok()) << refused.status();
  EXPECT_EQ(refused->exit_code, 69);
  EXPECT_THAT(refused->err, HasSubstr("deltafin"));
  End(*node);
  std::ofstream(ledger_ + "/CURRENT") << "nonsense";
  auto mended = RunProcess(rebuild, absl::Minutes(1));
  ASSERT_TRUE(mended.ok()) << mended.status();
  EXPECT_EQ(mended->exit_code, 0) << mended->err;
  EXPECT_THAT(mended->out, HasSubstr("768 experts on the drive"));
  EXPECT_EQ(Ledger(dir_)["held_experts"], kNumExperts);
}

TEST_F(StorageTest, ExpertsAreRemovedAndFetchedWhileTheNodeServes) {
  const auto node = StartNode(dir_);
  ExpectTheRightText(*node);
  nlohmann::json report = Experts({"remove", "1:0", "1:1", "5:63"}, *node);
  EXPECT_EQ(report["complete_experts"], kNumExperts - 3);
  ExpectTheRightText(*node);
  report = Experts({"fetch", "1:0", "1:1", "5:63"}, *node);
  EXPECT_EQ(report["complete_experts"], kNumExperts);
  const ProcessResult refused =
      RunDeltafin({"experts", "remove", "1:64", "--node", node->address(0)});
  EXPECT_EQ(refused.exit_code, 65);
  EXPECT_THAT(refused.err, HasSubstr("layer 1 expert 64"));
}

TEST_F(StorageTest, TheQuotaIsChangedWhileTheNodeServesAndOutlivesIt) {
  auto node = StartNode(dir_);
  ExpectTheRightText(*node);
  nlohmann::json report = Experts({"quota", "1M", "--remove-coldest"}, *node);
  EXPECT_EQ(report["quota_bytes"], 1 << 20);
  EXPECT_LE(report["held_bytes"], 1 << 20);
  EXPECT_GT(report["removed_experts"], 0);
  const int held = report["complete_experts"];
  ExpectTheRightText(*node);
  node->Kill(0);
  node = StartNode(dir_);
  EXPECT_THAT(node->node(0).err(), HasSubstr("still streaming"));
  report = Experts({"show"}, *node);
  EXPECT_EQ(report["quota_bytes"], 1 << 20);
  EXPECT_EQ(report["complete_experts"], held);
  report = Experts({"quota", "none"}, *node);
  EXPECT_TRUE(report["quota_bytes"].is_null());
  ExpectTheRightText(*node);
}

TEST_F(StorageTest, ExpertsMoveFromOneNodeToAnother) {
  const std::string other = folder_.File("other");
  Install(other, "--stream");
  const auto from = StartNode(dir_);
  const auto to = StartNode(other);
  const nlohmann::json report =
      RunDeltafinJson({"experts", "move", "3:7", "4:9", "--node",
                       from->address(0), "--to", to->address(0)});
  EXPECT_EQ(report["complete_experts"], kNumExperts - 2);
  EXPECT_EQ(Experts({"show"}, *to)["complete_experts"], 2);
  const ProcessResult refused =
      RunDeltafin({"experts", "move", "3:8", "--node", from->address(0), "--to",
                   "127.0.0.1:1"});
  EXPECT_EQ(refused.exit_code, 69) << refused.err;
  EXPECT_EQ(Experts({"show"}, *from)["complete_experts"], kNumExperts - 2);
}

TEST_F(StorageTest, ExpertsAreNotMovedToWhereTheyAre) {
  const auto node = StartNode(dir_);
  const std::string address = node->address(0);
  const std::string alias = "localhost" + address.substr(address.rfind(':'));
  for (const std::string& to : {address, alias}) {
    const ProcessResult refused =
        RunDeltafin({"experts", "move", "3:7", "--node", address, "--to", to});
    EXPECT_EQ(refused.exit_code, 64);
    EXPECT_THAT(refused.err, HasSubstr("--node " + address + " and --to " + to +
                                       " are the same program"));
  }
  EXPECT_EQ(Experts({"show"}, *node)["complete_experts"], kNumExperts);
}

TEST_F(StorageTest, ACoordinatorsOwnExpertsAreChangedThroughIt) {
  auto serve = Process::Start(
      {DeltafinBinary(), "serve", "--model", dir_, "--listen", "127.0.0.1:0"});
  ASSERT_TRUE(serve.ok()) << serve.status();
  const auto address = WaitForAddress(**serve);
  ASSERT_TRUE(address.ok()) << address.status();
  const nlohmann::json report =
      RunDeltafinJson({"experts", "remove", "1:0", "--node", *address});
  EXPECT_EQ(report["complete_experts"], kNumExperts - 1);
}

TEST_F(StorageTest, SaysThatAProgramKeepsNothing) {
  const auto node = StartNode(NanoModelDir());
  const ProcessResult result =
      RunDeltafin({"experts", "show", "--node", node->address(0)});
  EXPECT_EQ(result.exit_code, 69);
  EXPECT_THAT(result.err, HasSubstr("keeps no experts"));
}

TEST_F(StorageTest, RefusesWordsThatAreNoExpertsAndNoQuota) {
  for (const Words& words : {Words{"remove", "17"}, Words{"remove", "1:x"},
                             Words{"fetch", "-1:2"}, Words{"quota", "many"}}) {
    const ProcessResult result =
        RunDeltafin(Join(Join({"experts"}, words), {"--node", "127.0.0.1:1"}));
    EXPECT_EQ(result.exit_code, 64) << words[1] << result.err;
  }
  EXPECT_EQ(RunDeltafin({"experts", "show"}).exit_code, 64);
}

TEST_F(StorageTest, TellsHowLongATokenWillTakeOnceTheSourceWasMeasured) {
  const std::string streamed = folder_.File("streamed");
  Install(streamed, "--stream");
  const auto node = StartNode(streamed);
  EXPECT_THAT(node->node(0).err(),
              AllOf(HasSubstr("still streaming: 0 of 768"),
                    HasSubstr("not known before some were fetched")));
}

}  // namespace
}  // namespace deltafin::testing
