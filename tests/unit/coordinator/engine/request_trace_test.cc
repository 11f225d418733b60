#include "coordinator/engine/request_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "coordinator/engine/request_history.h"

namespace deltafin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

LayerTrace Layer(int layer, double waited, std::string_view node) {
  LayerTrace trace;
  trace.layer = layer;
  trace.waited = waited;
  trace.node = node;
  trace.link = waited;
  return trace;
}

StepTrace Step(double seconds, const LayerTrace& layer) {
  StepTrace step;
  step.seconds = seconds;
  step.experts.Add(layer);
  return step;
}

std::map<std::string, double> PartsOf(const v1::Explanation& explanation) {
  std::map<std::string, double> parts;
  for (const auto& part : explanation.parts()) {
    parts[part.where()] += part.seconds();
  }
  return parts;
}

TEST(ExpertTraceTest, KeepsTheFiveLayersThatWereWaitedForLongest) {
  ExpertTrace trace;
  for (const int layer : {4, 9, 1, 7, 3, 8, 2, 6, 5}) {
    const std::string node = "node-" + std::to_string(layer);
    trace.Add(Layer(layer, layer, node));
  }
  EXPECT_EQ(trace.num_layers(), ExpertTrace::kMaxLayers);
  EXPECT_DOUBLE_EQ(trace.waited(), 45);
  v1::Explanation explanation;
  trace.ToProto(explanation.mutable_parts(), explanation.mutable_layers());
  std::vector<std::string> nodes;
  for (const auto& layer : explanation.layers()) {
    EXPECT_EQ("node-" + std::to_string(layer.layer()), layer.node());
    nodes.push_back(layer.node());
  }
  EXPECT_THAT(nodes,
              ElementsAre("node-9", "node-8", "node-7", "node-6", "node-5"));
  trace.Clear();
  EXPECT_EQ(trace.num_layers(), 0u);
  EXPECT_EQ(trace.waited(), 0);
}

TEST(ExpertTraceTest, DividesWhatWasWaitedForAsTheLastAnswerDividesIt) {
  LayerTrace layer = Layer(3, 8, "n");
  layer.replan = 2;
  layer.given_up = "lost";
  layer.queue = 1;
  layer.read = 3;
  layer.compute = 4;
  layer.link = 4;  // 12 in all, 6 of them waited for
  ExpertTrace trace;
  trace.Add(layer);
  v1::Explanation explanation;
  trace.ToProto(explanation.mutable_parts(), explanation.mutable_layers());
  const auto parts = PartsOf(explanation);
  EXPECT_DOUBLE_EQ(parts.at("experts: queue"), 0.5);
  EXPECT_DOUBLE_EQ(parts.at("experts: disk"), 1.5);
  EXPECT_DOUBLE_EQ(parts.at("experts: CPU"), 2);
  EXPECT_DOUBLE_EQ(parts.at("link"), 2);
  EXPECT_DOUBLE_EQ(parts.at("re-plan"), 2);
  EXPECT_DOUBLE_EQ(explanation.layers(0).read_seconds(), 3);
  EXPECT_THAT(explanation.layers(0).remark(), HasSubstr("work of lost"));
}

TEST(ExpertTraceTest, TellsWhatPassedBeforeLateWorkWasAskedOfAnother) {
  LayerTrace layer = Layer(3, 8, "n");
  layer.hedge = 6;
  layer.late = "slow";
  layer.queue = layer.read = layer.link = 0;
  layer.compute = 1;
  ExpertTrace trace;
  trace.Add(layer);
  v1::Explanation explanation;
  trace.ToProto(explanation.mutable_parts(), explanation.mutable_layers());
  const auto parts = PartsOf(explanation);
  EXPECT_DOUBLE_EQ(parts.at("hedge"), 6);
  EXPECT_DOUBLE_EQ(parts.at("experts: CPU"), 2);
  EXPECT_DOUBLE_EQ(parts.at("re-plan"), 0);
  EXPECT_THAT(explanation.layers(0).remark(), HasSubstr("late work of slow"));
}

TEST(ExpertTraceTest, BoundsTheNamesOfNodes) {
  const std::string name(10'000, 'n');
  ExpertTrace trace;
  trace.Add(Layer(1, 1, name));
  v1::Explanation explanation;
  trace.ToProto(explanation.mutable_parts(), explanation.mutable_layers());
  EXPECT_EQ(explanation.layers(0).node().size(), ExpertTrace::kMaxNameSize);
}

TEST(RequestTraceTest, TellsThePromptAndTheSlowestLaterToken) {
  RequestTrace trace;
  trace.AddStep(Step(10, Layer(1, 4, "p")));
  trace.AddStep(Step(20, Layer(2, 5, "p")));
  trace.TokenDrawn();
  trace.AddStep(Step(1, Layer(3, 0.5, "fast")));
  trace.TokenDrawn();
  trace.AddStep(Step(3, Layer(4, 2, "slow")));
  trace.TokenDrawn();
  trace.AddStep(Step(2, Layer(5, 1.5, "fast")));
  trace.TokenDrawn();
  trace.AddStep(Step(99, Layer(6, 99, "gave no token")));
  const v1::Explanation explanation = trace.ToProto();
  EXPECT_EQ(explanation.tokens(), 4u);
  EXPECT_DOUBLE_EQ(explanation.prompt_seconds(), 30);
  ASSERT_EQ(explanation.prompt_layers_size(), 2);
  EXPECT_EQ(explanation.prompt_layers(0).layer(), 2u);
  EXPECT_EQ(explanation.slowest_token(), 2u);
  EXPECT_DOUBLE_EQ(explanation.slowest_seconds(), 3);
  ASSERT_EQ(explanation.layers_size(), 1);
  EXPECT_EQ(explanation.layers(0).node(), "slow");
  EXPECT_DOUBLE_EQ(PartsOf(explanation).at("spine"), 1);
  double sum = 0;
  for (const auto& part : explanation.parts()) sum += part.seconds();
  EXPECT_DOUBLE_EQ(sum, 3);
}

TEST(RequestTraceTest, WithoutATokenThePromptHasAllTheTime) {
  RequestTrace trace;
  trace.AddStep(Step(10, Layer(1, 4, "p")));
  const v1::Explanation explanation = trace.ToProto();
  EXPECT_EQ(explanation.tokens(), 0u);
  EXPECT_DOUBLE_EQ(explanation.prompt_seconds(), 10);
  EXPECT_EQ(explanation.slowest_token(), 0u);
  EXPECT_EQ(explanation.parts_size(), 0);
}

TEST(RequestHistoryTest, RemembersTheLastRequestsAndNamesThem) {
  RequestHistory history;
  EXPECT_EQ(history.Find(0).status().code(), absl::StatusCode::kNotFound);
  for (uint64_t id = 1; id <= 70; ++id) {
    v1::Explanation explanation;
    explanation.set_request(id);
    explanation.set_tokens(static_cast<uint32_t>(10 * id));
    history.Add(explanation);
  }
  EXPECT_EQ(history.Find(0)->request(), 70u);
  EXPECT_EQ(history.Find(7)->tokens(), 70u);
  EXPECT_EQ(history.Find(70)->tokens(), 700u);
  const absl::Status status = history.Find(6).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("last 64 that finished: 7, 8,"));
}

}  // namespace
}  // namespace deltafin
