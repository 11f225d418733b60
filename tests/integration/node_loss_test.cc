// A node that dies or stalls ends the generation with a status that names it;
// nothing hangs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/deltafin_program.h"
#include "tests/testing/mini_cluster.h"

namespace deltafin::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class NodeLossTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto cluster = MiniCluster::Start({.num_nodes = 3});
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
  }

  // A long generation that has begun to print.
  std::unique_ptr<Process> StartGeneration(const Words& more = {}) {
    auto process = Process::Start(
        Join({DeltafinBinary(), "run", "--prompt", "It was", "--max-new-tokens",
              "8000", "--ignore-eos", "--nodes", cluster_->addresses()},
             more));
    EXPECT_TRUE(process.ok()) << process.status();
    EXPECT_TRUE(
        (*process)
            ->WaitForOutput([](std::string_view out,
                               std::string_view) { return out.size() > 20; },
                            absl::Minutes(1))
            .ok());
    return *std::move(process);
  }

  std::unique_ptr<MiniCluster> cluster_;
};

TEST_F(NodeLossTest, KilledNodeEndsTheGenerationAndIsNamed) {
  const std::unique_ptr<Process> process = StartGeneration();
  cluster_->Kill(1);
  const auto code = process->Wait(absl::Minutes(1));
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 69);
  EXPECT_THAT(
      process->err(),
      AllOf(HasSubstr(cluster_->address(1)), ContainsRegex("layer [0-9]+"),
            ContainsRegex("expert"), HasSubstr("start it again")));
}

TEST_F(NodeLossTest, StalledNodeEndsTheGenerationAtItsDeadline) {
  const std::unique_ptr<Process> process =
      StartGeneration({"--layer-deadline-ms", "1500"});
  cluster_->Pause(2);
  const auto code = process->Wait(absl::Minutes(1));
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 69);
  EXPECT_THAT(process->err(), AllOf(HasSubstr(cluster_->address(2)),
                                    ContainsRegex("layer [0-9]+")));
  cluster_->Resume(2);
}

TEST_F(NodeLossTest, TheOtherNodesServeOn) {
  const std::unique_ptr<Process> process = StartGeneration();
  cluster_->Kill(1);
  ASSERT_TRUE(process->Wait(absl::Minutes(1)).ok());
  const nlohmann::json report = RunDeltafinJson(
      {"run", "--prompt", "It was", "--max-new-tokens", "4", "--nodes",
       cluster_->address(0) + "," + cluster_->address(2)});
  EXPECT_EQ(report["output_ids"].size(), 4);
}

TEST_F(NodeLossTest, ANodeThatIsNotThereIsRefusedBeforeLoading) {
  cluster_->Kill(0);
  const ProcessResult result = RunDeltafin(
      {"run", "--prompt", "It was", "--nodes", cluster_->addresses()},
      absl::Minutes(1));
  EXPECT_EQ(result.exit_code, 69);
  EXPECT_THAT(result.err, AllOf(HasSubstr(cluster_->address(0)),
                                HasSubstr("is deltafin-node running there?")));
  EXPECT_EQ(result.out, "");
}

}  // namespace
}  // namespace deltafin::testing
