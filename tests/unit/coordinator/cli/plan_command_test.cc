#include "coordinator/cli/plan_command.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace deltafin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

v1::PlannedCluster Cluster(const std::string& text) {
  v1::PlannedCluster cluster;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &cluster));
  return cluster;
}

constexpr char kFourNodes[] = R"(
  coordinator { name: "desk" ram: "128G" memory_read: "80G" }
  nodes {
    name: "mini" count: 4 ram: "64G" disk: "1T" disk_read: "3G"
    memory_read: "60G" link_gbit: 2.5 link_latency_ms: 0.1
  })";

ClusterPlan FourNodes() { return *ParsePlannedCluster(Cluster(kFourNodes)); }

PlanPrediction Predict(const ClusterPlan& plan) {
  const auto prediction =
      PredictPlan(FullK3Demand(SpinePrecision::kInt8, 8192), plan);
  EXPECT_TRUE(prediction.ok()) << prediction.status();
  return *prediction;
}

TEST(PlanCommandTest, ReadsMachinesAndCounts) {
  const ClusterPlan plan = FourNodes();
  ASSERT_EQ(plan.nodes.size(), 4u);
  EXPECT_EQ(plan.nodes[3].name, "mini-4");
  EXPECT_DOUBLE_EQ(plan.nodes[3].link_rate, 2.5e9 / 8);
  EXPECT_DOUBLE_EQ(plan.nodes[3].link_latency, 1e-4);
  EXPECT_DOUBLE_EQ(plan.nodes[3].disk_rate, 3.0 * (1 << 30));
  EXPECT_EQ(plan.copies, 1);
}

TEST(PlanCommandTest, NamesEveryBadField) {
  const auto plan = ParsePlannedCluster(Cluster(R"(
    coordinator { ram: "lots" memory_read: "80G" }
    nodes { ram: "64G" disk: "0" disk_read: "3G" memory_read: "60G"
            link_gbit: -1 link_latency_ms: nan }
    spine: "fp8" copies: 9)"));
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(plan.status().message()),
              AllOf(HasSubstr("coordinator: ram: 'lots'"),
                    HasSubstr("nodes 1: disk: '0'"),
                    HasSubstr("nodes 1: link_gbit: -1"),
                    HasSubstr("nodes 1: link_latency_ms: nan"),
                    HasSubstr("spine: 'fp8'"), HasSubstr("copies")));
}

TEST(PlanCommandTest, AClusterNeedsSomebodyWithExperts) {
  const auto plan = ParsePlannedCluster(
      Cluster(R"(coordinator { ram: "64G" memory_read: "80G" })"));
  EXPECT_THAT(std::string(plan.status().message()),
              HasSubstr("the coordinator has no disk_read"));
}

TEST(PlanCommandTest, SumsSpineAndExperts) {
  const PlanPrediction prediction = Predict(FourNodes());
  EXPECT_DOUBLE_EQ(prediction.seconds_per_token,
                   prediction.spine_seconds + prediction.expert_seconds);
  // 55.6 GB at 0.95 x 80 GiB/s.
  EXPECT_NEAR(prediction.spine_seconds, 0.682, 0.001);
  // 60 of 361 GB in memory; the rest of 281 MB / 4 a layer at 3 GiB/s.
  EXPECT_NEAR(prediction.nodes[0].resident, 0.179, 0.01);
  EXPECT_NEAR(prediction.expert_seconds, 92 * 0.0195, 92 * 0.002);
  EXPECT_EQ(prediction.nodes[1].limit, "disk");
  EXPECT_DOUBLE_EQ(prediction.nodes[1].share, 0.25);
}

// Not quite twice as much: less of a larger share is in memory.
TEST(PlanCommandTest, AFasterNodeGetsMore) {
  ClusterPlan plan = FourNodes();
  plan.nodes[0].disk_rate *= 2;
  plan.nodes[0].disk_bytes *= 2;
  const PlanPrediction prediction = Predict(plan);
  EXPECT_NEAR(prediction.nodes[0].share / prediction.nodes[1].share, 1.85,
              0.15);
}

TEST(PlanCommandTest, PurchasesHelpWhereTheyShould) {
  const TokenDemand demand = FullK3Demand(SpinePrecision::kInt8, 8192);
  const double now = 1 / Predict(FourNodes()).seconds_per_token;
  const auto purchases = PredictPurchases(demand, FourNodes());
  ASSERT_EQ(purchases.size(), 5u);
  for (const Purchase& purchase : purchases) {
    EXPECT_GE(purchase.tokens_per_second, now * 0.999) << purchase.what;
  }
  EXPECT_THAT(purchases[1].what, HasSubstr("second drive"));
  EXPECT_GT(purchases[1].tokens_per_second, 1.3 * now);
  // Round trips are a small part here.
  EXPECT_LT(purchases[3].tokens_per_second, 1.05 * now);
}

TEST(PlanCommandTest, DisksTooSmallForTheExpertsAreRefused) {
  ClusterPlan plan = FourNodes();
  plan.copies = 4;
  const auto prediction =
      PredictPlan(FullK3Demand(SpinePrecision::kInt8, 8192), plan);
  EXPECT_EQ(prediction.status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(PlanCommandTest, ASpineLargerThanMemoryIsReadFromDisk) {
  ClusterPlan plan = FourNodes();
  const double fits = Predict(plan).spine_seconds;
  plan.coordinator.ram_bytes = 40e9;
  const TokenDemand demand = FullK3Demand(SpinePrecision::kInt8, 8192);
  EXPECT_EQ(PredictPlan(demand, plan).status().code(),
            absl::StatusCode::kResourceExhausted);  // no drive to read from
  plan.coordinator.disk_rate = 2e9;
  const PlanPrediction prediction = Predict(plan);
  // 55.6 + 0.9 + 4 GB less 40 GB, and two buffers of 0.63 GB, at 2 GB/s; a
  // layer more or less.
  EXPECT_NEAR(prediction.streamed_bytes, 21.8e9, 0.7e9);
  EXPECT_NEAR(prediction.seconds_per_token, prediction.streamed_bytes / 2e9,
              1e-6);
  EXPECT_EQ(prediction.limit, "the spine: disk of desk");
  EXPECT_NEAR(prediction.spine_seconds, fits, 1e-9);
  EXPECT_LT(fits, 1);
  EXPECT_THAT(PlanTable(demand, prediction, {}),
              HasSubstr("layers are read from its disk for every token"));
  EXPECT_THAT(PredictPurchases(demand, plan).back().what,
              HasSubstr("memory for the whole spine"));

  plan.coordinator.ram_bytes = 6e9;  // not even two buffers
  EXPECT_EQ(PredictPlan(demand, plan).status().code(),
            absl::StatusCode::kResourceExhausted);
}

// K3 in bf16, its memory a tenth too small: reading goes on beside the rest of
// the token.
TEST(PlanCommandTest, ASpineATenthLargerThanMemoryCostsNoTimeOnACluster) {
  ClusterPlan plan = FourNodes();
  const TokenDemand demand = FullK3Demand(SpinePrecision::kBf16, 8192);
  plan.coordinator.memory_rate = 30e9;
  plan.coordinator.disk_rate = 3e9;
  const auto seconds = [&](double spine_room) {
    plan.coordinator.ram_bytes =
        spine_room + static_cast<double>(demand.sequence_bytes) + 4e9;
    const auto prediction = PredictPlan(demand, plan);
    EXPECT_TRUE(prediction.ok()) << prediction.status();
    EXPECT_EQ(prediction->streamed_layers > 0, spine_room < 111e9);
    return prediction->seconds_per_token;
  };
  EXPECT_LE(seconds(static_cast<double>(demand.spine_bytes) / 1.1),
            1.02 * seconds(112e9));
}

TEST(PlanCommandTest, SaysThatItIsAPrediction) {
  const TokenDemand demand = FullK3Demand(SpinePrecision::kBf16, 8192);
  const auto json =
      nlohmann::json::parse(PlanJson(demand, Predict(FourNodes()), {}));
  EXPECT_EQ(json["predicted"], true);
  EXPECT_EQ(json["nodes"].size(), 4u);
  EXPECT_GT(json["assumptions"].size(), 4u);
  EXPECT_THAT(PlanTable(demand, Predict(FourNodes()), {}),
              HasSubstr("predicted"));
}

}  // namespace
}  // namespace deltafin
