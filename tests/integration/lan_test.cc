// A cluster on a LAN in a box: what happens to nodes and cables never shows in
// the text. The quick cases; lan_long_test has the others. Needs root.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdio>

#include "absl/time/clock.h"
#include "common/net/grpc_status.h"
#include "proto/inference.grpc.pb.h"
#include "tests/integration/lan_case.h"
#include "tests/testing/mini_cluster.h"

namespace deltafin::testing {
namespace {

using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class LanTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const absl::Status possible = LanBox::Possible();
    if (!possible.ok()) GTEST_SKIP() << "no LAN in a box: " << possible;
  }
};

class LanCaseTest : public LanTest,
                    public ::testing::WithParamInterface<LanCase> {};

TEST_P(LanCaseTest, DoesNotShow) { RunLanCase(GetParam()); }

std::string NameOf(const ::testing::TestParamInfo<LanCase>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Lan, LanCaseTest,
                         ::testing::ValuesIn(QuickLanCases(LanProfile::kLan)),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Fast, LanCaseTest,
                         ::testing::ValuesIn(QuickLanCases(LanProfile::kFast)),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(
    Loopback, LanCaseTest,
    ::testing::ValuesIn(QuickLanCases(LanProfile::kLoopback)), NameOf);

TEST_F(LanTest, AllCablesPulledEndTheRunAndNameWhatIsMissing) {
  auto cluster = LanCluster::Start(LanProfile::kLan, kLanNodes);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  auto run = (*cluster)->StartDeltafin(
      Join(Join(ShortLanPrompt(500).flags, kEveryNodeWorks),
           {"--layer-deadline-ms", "30000"}));
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_TRUE((*cluster)->WaitForLayerRequests(0, 100).ok());
  for (int i = 0; i < kLanNodes; ++i) ASSERT_TRUE((*cluster)->Down(i).ok());
  const auto code = (*run)->Wait(absl::Minutes(1));
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 69);
  EXPECT_THAT(
      (*run)->err(),
      AllOf(ContainsRegex("layer [0-9]+ expert [0-9]+: no node is left"),
            ContainsRegex("node 10\\.77\\.0\\.[2-5]:740[0-3]")));
}

// The same prompt as ShortLanPrompt, asked of a server.
absl::StatusOr<std::vector<int>> Ask(v1::InferenceService::Stub& stub,
                                     int num_tokens) {
  v1::GenerateRequest request;
  for (const uint32_t id : {1063u, 315u}) request.mutable_ids()->add_ids(id);
  request.set_max_new_tokens(num_tokens);
  request.set_ignore_eos(true);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::minutes(1));
  const auto reader = stub.Generate(&context, request);
  std::vector<int> ids;
  v1::GenerateReply reply;
  while (reader->Read(&reply)) {
    if (reply.has_token()) ids.push_back(static_cast<int>(reply.id()));
  }
  const absl::Status status = FromGrpc(reader->Finish());
  if (!status.ok()) return status;
  return ids;
}

TEST_F(LanTest, AnIdleCoordinatorKeepsHealthyNodesAndNoticesAPulledCable) {
  constexpr int kTokens = 40;
  const Json expected =
      UndisturbedReport(ShortLanPrompt(kTokens))["output_ids"];
  const Words bound = {"--keepalive-ms", "2500"};
  auto cluster = LanCluster::Start(LanProfile::kLan, kLanNodes, bound);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  auto serve = (*cluster)->StartDeltafin(Join(
      {"serve", "--listen", "127.0.0.1:8500", "--stats", "--json"}, bound));
  ASSERT_TRUE(serve.ok()) << serve.status();
  ASSERT_TRUE(WaitForAddress(**serve).ok());
  const auto ask = [&] {
    const auto line = (*cluster)->Call(0, "127.0.0.1", 8500);
    EXPECT_TRUE(line.ok()) << line.status();
    const auto stub = v1::InferenceService::NewStub(line->channel);
    const auto ids = Ask(*stub, kTokens);
    EXPECT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(Json(ids.value_or(std::vector<int>())), expected);
  };
  ask();
  absl::SleepFor(absl::Seconds(5));  // two keepalive bounds
  ask();
  ASSERT_TRUE((*cluster)->Down(2).ok());
  // Longer than the bound, and shorter than the default one would take.
  absl::SleepFor(absl::Milliseconds(4200));
  ASSERT_TRUE((*cluster)->Up(2).ok());
  ask();  // had nobody noticed, the old stream would still do
  const auto serves_again = [](std::string_view, std::string_view err) {
    const size_t suspect = err.find("is suspect");
    return suspect != std::string_view::npos &&
           err.find("is serving", suspect) != std::string_view::npos;
  };
  ASSERT_TRUE((*serve)->WaitForOutput(serves_again, absl::Minutes(1)).ok())
      << (*serve)->err();
  ask();
  (*serve)->Signal(SIGTERM);
  ASSERT_EQ(*(*serve)->Wait(absl::Minutes(1)), 0) << (*serve)->err();
  const std::string out = (*serve)->out();
  const Json report{{"stats", Json::parse(out.substr(out.find('{')))}};
  for (int i = 0; i < kLanNodes; ++i) {
    EXPECT_EQ(NodeEntry(report, (*cluster)->address(i))["streams_opened"],
              i == 2 ? 2 : 1)
        << (*serve)->err();
  }
}

// Says which cases ran, for those who read a log.
class CaseList : public ::testing::EmptyTestEventListener {
 public:
  void OnTestEnd(const ::testing::TestInfo& test) override {
    if (!test.result()->Skipped()) {
      names_ += std::string("  ") + test.test_suite_name() + "." + test.name() +
                (test.result()->Passed() ? "\n" : "  FAILED\n");
    }
  }
  void OnTestProgramEnd(const ::testing::UnitTest&) override {
    std::printf("LAN cases that ran:\n%s",
                names_.empty() ? "  none\n" : names_.c_str());
  }

 private:
  std::string names_;
};

const bool kListens = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new CaseList);
  return true;
}();

}  // namespace
}  // namespace deltafin::testing
