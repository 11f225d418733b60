#include "expert_node/layer_stream.h"

#include <gtest/gtest.h>

#include "tests/unit/expert_node/generated_experts.h"

namespace deltafin {
namespace {

using CloseMode = RequestQueue::CloseMode;

constexpr ExpertShape kShape = {96, 256};

class LayerStreamTest : public ::testing::Test {
 protected:
  LayerStreamTest() {
    auto lower = std::make_unique<GeneratedStore>(kShape);
    store_ = lower.get();
    tiers_ = *TieredStore::Create(std::move(lower), {size_t{1} << 20, 1});
    engine_ =
        std::make_unique<ExpertEngine>(BestKernel(), spec_.situ, *tiers_, 1);
  }

  LayerStreamContext Context() {
    return {spec_, *engine_, counters_, gate_, 16, {}, nullptr};
  }
  static v1::NodeRequest Message(const LayerWork& work) {
    v1::NodeRequest message;
    *message.mutable_layer() = RequestOf(work);
    return message;
  }

  const ModelSpec spec_ = SmallSpec(kShape);
  GeneratedStore* store_ = nullptr;
  std::unique_ptr<TieredStore> tiers_;
  std::unique_ptr<ExpertEngine> engine_;
  RequestCounters counters_;
  RequestGate gate_;
};

TEST_F(LayerStreamTest, AnswersEveryRequestInOrderBeforeAFinishReturns) {
  std::vector<uint32_t> parts;
  const LayerStreamContext context = Context();
  LayerStream stream(context, [&](const v1::LayerReply& reply) {
    parts.push_back(reply.part());
    return true;
  });
  LayerWork work = GeneratedWork(spec_, 1, 1, 1);
  for (work.part = 0; work.part < 4; ++work.part) stream.Handle(Message(work));
  stream.Close(CloseMode::kFinish);
  EXPECT_EQ(parts, (std::vector<uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(counters_.layer_requests, 4u);
  EXPECT_EQ(gate_.num_inside(), 0);
}

TEST_F(LayerStreamTest, RefusesRequestsOnceTheGateIsClosed) {
  gate_.Close();
  std::vector<v1::LayerReply> replies;
  const LayerStreamContext context = Context();
  LayerStream stream(context, [&](const v1::LayerReply& reply) {
    replies.push_back(reply);
    return true;
  });
  LayerWork work = GeneratedWork(spec_, 1, 1, 1);
  work.part = 3;
  stream.Handle(Message(work));
  stream.Close(CloseMode::kFinish);
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(replies[0].status_code(),
            static_cast<uint32_t>(absl::StatusCode::kUnavailable));
  EXPECT_EQ(replies[0].step(), work.step);
  EXPECT_EQ(replies[0].part(), 3u);
}

TEST_F(LayerStreamTest, DropsWhatWaitsWhenTheCoordinatorCannotBeReached) {
  store_->Hold();
  int sent = 0;
  const LayerStreamContext context = Context();
  LayerStream stream(context, [&](const v1::LayerReply&) {
    ++sent;
    return false;
  });
  for (int i = 0; i < 3; ++i) {
    stream.Handle(Message(GeneratedWork(spec_, 1, 1, 1)));
  }
  store_->Open();
  stream.Close(CloseMode::kFinish);
  EXPECT_EQ(sent, 1);
  EXPECT_EQ(counters_.cancelled, 2u);
  EXPECT_EQ(gate_.num_inside(), 0);
}

TEST_F(LayerStreamTest, IgnoresAnEmptyMessage) {
  const LayerStreamContext context = Context();
  LayerStream stream(context, [](const v1::LayerReply&) { return true; });
  stream.Handle(v1::NodeRequest());
  stream.Close(CloseMode::kFinish);
  EXPECT_EQ(counters_.layer_requests, 0u);
  EXPECT_EQ(counters_.refused, 0u);
}

}  // namespace
}  // namespace deltafin
