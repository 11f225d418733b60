// A node that dies or stalls shows neither in the text nor as a hang; where
// nobody can stand in, the generation ends with a status that names it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/integration/deltafin_program.h"
#include "tests/testing/mini_cluster.h"

namespace deltafin::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// Some seconds of text.
constexpr int kNumTokens = 600;

class NodeLossTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto cluster = MiniCluster::Start({.num_nodes = 3});
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
  }

  // A long generation that has begun to print.
  std::unique_ptr<Process> StartGeneration(const Words& more = {}) {
    auto process =
        Process::Start(Join({DeltafinBinary(), "run", "--prompt", "It was",
                             "--max-new-tokens", std::to_string(kNumTokens),
                             "--ignore-eos", "--nodes", cluster_->addresses()},
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

// What an undisturbed run of the same length says.
std::string Undisturbed(int num_tokens) {
  return RunDeltafin({"run", "--prompt", "It was", "--max-new-tokens",
                      std::to_string(num_tokens), "--ignore-eos"},
                     absl::Minutes(2))
      .out;
}

TEST_F(NodeLossTest, KilledNodesDoNotShowInTheText) {
  const std::unique_ptr<Process> process = StartGeneration();
  cluster_->Kill(1);
  const size_t heard = process->out().size();
  ASSERT_TRUE(process
                  ->WaitForOutput(
                      [heard](std::string_view out, std::string_view) {
                        return out.size() > heard + 200;
                      },
                      absl::Minutes(1))
                  .ok());
  cluster_->Kill(0);
  const auto code = process->Wait(absl::Minutes(2));
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 0) << process->err();
  EXPECT_EQ(process->out(), Undisturbed(kNumTokens));
}

TEST_F(NodeLossTest, AStalledNodeDoesNotShowInTheText) {
  const std::unique_ptr<Process> process = StartGeneration();
  cluster_->Pause(2);
  const auto code = process->Wait(absl::Minutes(2));
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 0) << process->err();
  EXPECT_EQ(process->out(), Undisturbed(kNumTokens));
  cluster_->Resume(2);
}

TEST_F(NodeLossTest, WithoutAnyNodeTheGenerationEndsAndNamesWhatIsMissing) {
  const std::unique_ptr<Process> process = StartGeneration();
  for (const int node : {0, 1, 2}) cluster_->Kill(node);
  const auto code = process->Wait(absl::Minutes(1));
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 69);
  EXPECT_THAT(
      process->err(),
      AllOf(ContainsRegex("layer [0-9]+ expert [0-9]+: no node is left"),
            HasSubstr("127.0.0.1:")));
}

TEST_F(NodeLossTest, AllNodesStalledRunIntoTheLayersDeadline) {
  const std::unique_ptr<Process> process =
      StartGeneration({"--layer-deadline-ms", "1500"});
  for (const int node : {0, 1, 2}) cluster_->Pause(node);
  const auto code = process->Wait(absl::Minutes(1));
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 69);
  EXPECT_THAT(process->err(),
              AllOf(HasSubstr("no answer in time from node 127."),
                    ContainsRegex("layer [0-9]+")));
  for (const int node : {0, 1, 2}) cluster_->Resume(node);
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
