#include "expert_node/layer_work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/expert_node/generated_experts.h"

namespace deltafin {
namespace {

constexpr int kMaxTokens = 16;

// Layers 1..4, 8 experts of 3 slices, top 4, width 96.
ModelSpec Spec() { return SmallSpec({96, 544}); }

v1::LayerRequest GoodRequest() {
  return RequestOf(GeneratedWork(Spec(), 2, 3, 1));
}

TEST(LayerWorkTest, KeepsEveryFieldOfAGoodRequest) {
  const LayerWork want = GeneratedWork(Spec(), 2, 3, 1);
  const auto work = CheckLayerRequest(GoodRequest(), Spec(), kMaxTokens);
  ASSERT_TRUE(work.ok()) << work.status();
  EXPECT_EQ(work->epoch, want.epoch);
  EXPECT_EQ(work->step, want.step);
  EXPECT_EQ(work->layer, 2);
  EXPECT_EQ(work->part, want.part);
  EXPECT_EQ(work->num_tokens, 3);
  EXPECT_EQ(work->latent, want.latent);
  EXPECT_EQ(work->assignment_end, want.assignment_end);
  ASSERT_EQ(work->assignments.size(), want.assignments.size());
  for (size_t i = 0; i < want.assignments.size(); ++i) {
    EXPECT_EQ(work->assignments[i].expert, want.assignments[i].expert);
    EXPECT_EQ(work->assignments[i].run, want.assignments[i].run);
    EXPECT_EQ(work->assignments[i].weight, want.assignments[i].weight);
  }
}

TEST(LayerWorkTest, TakesTokensWithoutWork) {
  LayerWork idle = GeneratedWork(Spec(), 1, 2, 1);
  idle.assignments.clear();
  idle.assignment_end = {0, 0};
  const auto work = CheckLayerRequest(RequestOf(idle), Spec(), kMaxTokens);
  ASSERT_TRUE(work.ok()) << work.status();
  EXPECT_TRUE(work->assignments_of(1).empty());
}

TEST(LayerWorkTest, TakesAnExpertInSeveralRunsForOneToken) {
  LayerWork split = GeneratedWork(Spec(), 1, 1, 1);
  split.assignments = {{5, {2, 1}, 0.5f}, {5, {0, 2}, 0.5f}};
  split.assignment_end = {2};
  EXPECT_TRUE(CheckLayerRequest(RequestOf(split), Spec(), kMaxTokens).ok());
}

struct BadRequest {
  const char* name;
  std::function<void(v1::LayerRequest&)> spoil;
  const char* message;  // part of it
};

const float kNan = std::numeric_limits<float>::quiet_NaN();
const float kInf = std::numeric_limits<float>::infinity();

const BadRequest kBadRequests[] = {
    {"DenseLayer", [](auto& r) { r.set_layer(0); },
     "layer: 0 has no routed experts, layers 1 to 4 have"},
    {"LayerBeyondTheLast", [](auto& r) { r.set_layer(5); }, "layer: 5"},
    {"HugeLayer", [](auto& r) { r.set_layer(0xffffffffu); },
     "layer: 4294967295"},
    {"PartBeyondTheirNumber",
     [](auto& r) {
       r.set_part(2);
       r.set_num_parts(2);
     },
     "part: 2, num_parts says 2"},
    {"NoTokens", [](auto& r) { r.set_num_tokens(0); },
     "num_tokens: 0, 1 to 16 are accepted"},
    {"TooManyTokens", [](auto& r) { r.set_num_tokens(17); }, "num_tokens: 17"},
    {"HugeTokenCount", [](auto& r) { r.set_num_tokens(0xffffffffu); },
     "num_tokens: 4294967295"},
    {"ShortLatent", [](auto& r) { r.mutable_latent()->pop_back(); },
     "latent: 1151 bytes, 3 tokens of width 96 have 1152"},
    {"LongLatent", [](auto& r) { r.mutable_latent()->push_back('x'); },
     "latent: 1153 bytes"},
    {"MissingWeight", [](auto& r) { r.mutable_weight()->RemoveLast(); },
     "12, 12, 12 and 11 entries"},
    {"ExtraSlice", [](auto& r) { r.add_first_slice(0); },
     "12, 13, 12 and 12 entries"},
    {"MissingCount", [](auto& r) { r.mutable_num_slices()->RemoveLast(); },
     "12, 12, 11 and 12 entries"},
    {"MissingEnd", [](auto& r) { r.mutable_assignment_end()->RemoveLast(); },
     "assignment_end: 2 entries for 3 tokens"},
    {"DescendingEnds", [](auto& r) { r.set_assignment_end(1, 3); },
     "assignment_end[1]: 3, want 4 to 12"},
    {"EndBeyondTheList", [](auto& r) { r.set_assignment_end(2, 13); },
     "assignment_end[2]: 13"},
    {"LastEndTooLow", [](auto& r) { r.set_assignment_end(2, 11); },
     "assignment_end: the last is 11, but there are 12 entries"},
    {"ExpertBeyondTheLast", [](auto& r) { r.set_expert(4, 8); },
     "expert[4]: 8, the model has 8"},
    {"SliceBeyondTheLast", [](auto& r) { r.set_first_slice(4, 3); },
     "first_slice[4]: 3, an expert has 3"},
    {"NoSlices", [](auto& r) { r.set_num_slices(4, 0); },
     "num_slices[4]: 0 from slice 0, want 1 to 3"},
    {"TooManySlices", [](auto& r) { r.set_num_slices(4, 4); },
     "num_slices[4]: 4"},
    {"SlicesThatWrapAround",
     [](auto& r) {
       r.set_first_slice(4, 1);
       r.set_num_slices(4, 0xffffffffu);
     },
     "num_slices[4]: 4294967295 from slice 1, want 1 to 2"},
    {"NanWeight", [](auto& r) { r.set_weight(3, kNan); }, "weight[3]: nan"},
    {"InfiniteWeight", [](auto& r) { r.set_weight(3, kInf); },
     "weight[3]: inf"},
    {"ExpertTwice", [](auto& r) { r.set_expert(1, r.expert(0)); },
     "token 0: slice 0 of expert"},
    {"OverlappingRuns",
     [](auto& r) {
       r.set_expert(1, r.expert(0));
       r.set_num_slices(0, 2);
       r.set_first_slice(1, 1);
       r.set_num_slices(1, 1);
     },
     "token 0: slice 1 of expert"},
    {"MoreExpertsThanTheModelChooses",
     [](auto& r) {
       for (int i = 0; i < 5; ++i) r.set_expert(i, i);
       r.set_assignment_end(0, 5);
       r.set_assignment_end(1, 8);
     },
     "token 0: 5 experts, the model chooses 4"},
};

class BadRequestTest : public ::testing::TestWithParam<BadRequest> {};

TEST_P(BadRequestTest, IsRefusedNamingFieldAndValue) {
  v1::LayerRequest request = GoodRequest();
  GetParam().spoil(request);
  const auto work = CheckLayerRequest(request, Spec(), kMaxTokens);
  EXPECT_EQ(work.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(work.status().message()).find(GetParam().message),
            std::string::npos)
      << work.status();
}

INSTANTIATE_TEST_SUITE_P(All, BadRequestTest, ::testing::ValuesIn(kBadRequests),
                         [](const auto& info) { return info.param.name; });

TEST(LayerWorkTest, TheLargestRequestFitsTheMessageBound) {
  const ModelSpec spec = Spec();
  LayerWork work = GeneratedWork(spec, 4, kMaxTokens, 1);
  work.assignments.clear();
  work.assignment_end.clear();
  for (int t = 0; t < kMaxTokens; ++t) {
    for (int k = 0; k < spec.num_experts_per_token; ++k) {
      for (int s = 0; s < 3; ++s) work.assignments.push_back({k, {s, 1}, 1});
    }
    work.assignment_end.push_back(static_cast<int>(work.assignments.size()));
  }
  v1::NodeRequest request;
  *request.mutable_layer() = RequestOf(work);
  request.mutable_layer()->set_epoch(~uint64_t{0});
  request.mutable_layer()->set_step(~uint64_t{0});
  ASSERT_TRUE(CheckLayerRequest(request.layer(), spec, kMaxTokens).ok());
  EXPECT_LE(static_cast<int64_t>(request.ByteSizeLong()),
            MaxLayerRequestBytes(spec, kMaxTokens));
}

v1::ExpectExperts GoodExpectation() {
  v1::ExpectExperts request;
  request.set_layer(2);
  request.add_expert(7);
  request.add_first_slice(1);
  request.add_num_slices(2);
  return request;
}

TEST(ExpectExpertsTest, KeepsEveryFieldOfAGoodOne) {
  const auto runs = CheckExpectExperts(GoodExpectation(), Spec());
  ASSERT_TRUE(runs.ok()) << runs.status();
  ASSERT_EQ(runs->size(), 1u);
  EXPECT_EQ((*runs)[0].expert, (ExpertKey{2, 7}));
  EXPECT_EQ((*runs)[0].run, (SliceRun{1, 2}));
}

TEST(ExpectExpertsTest, IsRefusedNamingFieldAndValue) {
  using Change = std::function<void(v1::ExpectExperts&)>;
  const std::vector<std::pair<Change, std::string>> cases{
      {[](auto& r) { r.set_layer(0); }, "layer: 0 has no routed experts"},
      {[](auto& r) { r.set_layer(0xffffffff); }, "layer: 4294967295"},
      {[](auto& r) { r.set_expert(0, 8); }, "expert[0]: 8, the model has 8"},
      {[](auto& r) { r.set_first_slice(0, 3); }, "first_slice[0]: 3"},
      {[](auto& r) { r.set_num_slices(0, 3); }, "num_slices[0]: 3"},
      {[](auto& r) { r.set_num_slices(0, 0); }, "num_slices[0]: 0"},
      {[](auto& r) { r.add_expert(1); }, "2, 1 and 1 entries"},
  };
  for (const auto& [change, message] : cases) {
    v1::ExpectExperts request = GoodExpectation();
    change(request);
    const absl::Status status = CheckExpectExperts(request, Spec()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(message));
  }
}

}  // namespace
}  // namespace deltafin
