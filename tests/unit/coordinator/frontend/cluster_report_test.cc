#include "coordinator/frontend/cluster_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "tests/testing/token_recorder.h"
#include "tests/unit/coordinator/cluster/registry_fixture.h"
#include "tests/unit/coordinator/engine/cluster_fixture.h"

namespace deltafin::testing {
namespace {

using Json = nlohmann::json;
using ::testing::Each;
using ::testing::Gt;
using ::testing::SizeIs;

// A registry with members that the test moves, beside an engine with nodes of
// its own: what the report reads is apart as well.
class ClusterReportTest : public RegistryTest {
 protected:
  ClusterReportTest() : cluster_(2, Options()) {
    CHECK_OK(cluster_.Connect());
    report_ = std::make_unique<ClusterReport>(
        ClusterTitle{"nano", "cpu-bf16", "avx2", "1.2.3"}, *registry_,
        *cluster_.scheduler, *cluster_.dispatcher, clock_);
  }
  static ModelExtent Extent() {
    const FakeSpine spine;
    ModelExtent extent;
    extent.first_layer = spine.spec().first_k_dense_replace;
    extent.num_layers = spine.spec().num_moe_layers();
    extent.num_experts = spine.spec().num_experts;
    return extent;
  }
  static ClusterOptions Options() {
    ClusterOptions options;
    options.change = [](DispatcherOptions* dispatch) {
      dispatch->extent = Extent();
    };
    return options;
  }

  Json Snapshot() { return Json::parse(report_->Snapshot()); }
  // As many tokens are drawn.
  void Generate(int num_tokens) {
    ASSERT_TRUE(cluster_.Run(MakeRequest({1, 2, 3}, num_tokens)).status.ok());
  }

  Cluster cluster_;
  std::unique_ptr<ClusterReport> report_;
};

TEST_F(ClusterReportTest, TellsOfMembersAsTheRegistryDoes) {
  v1::JoinRequest join = JoinOf(1);
  join.mutable_capacity()->set_disk_bytes(2000);
  join.mutable_capacity()->set_disk_free_bytes(500);
  join.mutable_capacity()->set_read_bytes_per_second(3e9);
  join.mutable_load()->mutable_counters()->set_queue_depth(4);
  ASSERT_TRUE(registry_->Join(join).ok());
  const Json seen = Snapshot();
  EXPECT_EQ(seen["model"], "nano");
  EXPECT_EQ(seen["spine"], "cpu-bf16");
  EXPECT_EQ(seen["verdict"], "down");
  EXPECT_EQ(seen["limit"]["place"], "down");
  ASSERT_THAT(seen["nodes"], SizeIs(1));
  const Json& node = seen["nodes"][0];
  EXPECT_EQ(node["name"], "127.0.0.1:7001");
  EXPECT_EQ(node["id"], "id-1");
  EXPECT_EQ(node["state"], "joining");
  EXPECT_EQ(node["disk"]["bytes"], 2000);
  EXPECT_EQ(node["disk"]["free"], 500);
  EXPECT_EQ(node["read_rate"], 3e9);
  EXPECT_EQ(node["queue"], 4);
  EXPECT_TRUE(node["reads_now"].is_null());
  ASSERT_THAT(seen["events"], SizeIs(1));
  EXPECT_EQ(seen["events"][0]["to"], "joining");
  EXPECT_EQ(seen["events"][0]["times"], 1);
  EXPECT_EQ(seen["events"][0]["since"], seen["events"][0]["time"]);
}

TEST_F(ClusterReportTest, WordsOfANodeThatAreNoUtf8DoNoHarm) {
  Serve(JoinOf(1));
  registry_->MemberFailed(SlotOf(1), absl::UnavailableError("bad \xff byte"));
  const Json seen = Snapshot();
  EXPECT_EQ(seen["nodes"][0]["remark"], "bad \xef\xbf\xbd byte");
  EXPECT_EQ(seen["events"][2]["why"], "bad \xef\xbf\xbd byte");
}

TEST_F(ClusterReportTest, CountsTokensAndKnowsNoRateWhenNothingRuns) {
  Generate(5);
  const Json seen = Snapshot();
  EXPECT_EQ(seen["engine"]["decode_tokens"], 4);
  EXPECT_EQ(seen["engine"]["prefill_tokens"], 3);
  EXPECT_EQ(seen["engine"]["finished"], 1);
  EXPECT_TRUE(seen["engine"]["tokens_per_second"].is_null());
  EXPECT_TRUE(seen["engine"]["shares"].is_null());
  EXPECT_EQ(seen["step"]["number"], 5);
  EXPECT_EQ(seen["step"]["num_layers"], registry_->extent().num_layers);
}

TEST_F(ClusterReportTest, HeatHasALevelForEveryExpert) {
  const Json before = Json::parse(report_->Heat());
  EXPECT_EQ(before["most"], 0);
  Generate(3);
  const Json heat = Json::parse(report_->Heat());
  EXPECT_EQ(heat["layers"], Extent().num_layers);
  EXPECT_EQ(heat["experts"], Extent().num_experts);
  EXPECT_GT(heat["most"], 0);
  std::string levels;
  ASSERT_TRUE(absl::Base64Unescape(heat["levels"].get<std::string>(), &levels));
  ASSERT_THAT(levels, SizeIs(Extent().num_layers * Extent().num_experts));
  // The most chosen one.
  EXPECT_NE(levels.find('\xff'), std::string::npos);
}

}  // namespace
}  // namespace deltafin::testing
