#include "expert_node/layer_stream.h"

#include <gtest/gtest.h>

#include "tests/unit/expert_node/generated_experts.h"

namespace deltafin {
namespace {

using Received = LayerStream::Received;

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

  // Serves `messages`, then the end of the stream; returns the replies.
  std::vector<v1::LayerReply> Serve(std::vector<v1::NodeRequest> messages) {
    const LayerStreamContext context = Context();
    size_t next = 0;
    std::vector<v1::LayerReply> replies;
    LayerStream(
        context,
        [&](v1::NodeRequest* message) {
          if (next == messages.size()) return Received::kEnd;
          *message = messages[next++];
          return Received::kMessage;
        },
        [&](const v1::LayerReply& reply) {
          replies.push_back(reply);
          return coordinator_listens_;
        })
        .Serve();
    return replies;
  }

  bool coordinator_listens_ = true;
};

TEST_F(LayerStreamTest, AnswersEveryRequestInOrderBeforeItEnds) {
  std::vector<v1::NodeRequest> messages;
  LayerWork work = GeneratedWork(spec_, 1, 1, 1);
  for (work.part = 0; work.part < 4; ++work.part) {
    messages.push_back(Message(work));
  }
  const auto replies = Serve(messages);
  ASSERT_EQ(replies.size(), 4u);
  for (uint32_t part = 0; part < 4; ++part) {
    EXPECT_EQ(replies[part].part(), part);
    EXPECT_EQ(replies[part].status_code(), 0u);
    EXPECT_EQ(replies[part].sums(), replies[0].sums());
  }
  EXPECT_EQ(counters_.layer_requests, 4u);
  EXPECT_EQ(gate_.num_inside(), 0);
}

TEST_F(LayerStreamTest, RefusesRequestsOnceTheGateIsClosed) {
  gate_.Close();
  LayerWork work = GeneratedWork(spec_, 1, 1, 1);
  work.part = 3;
  const auto replies = Serve({Message(work)});
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(replies[0].status_code(),
            static_cast<uint32_t>(absl::StatusCode::kUnavailable));
  EXPECT_EQ(replies[0].step(), work.step);
  EXPECT_EQ(replies[0].part(), 3u);
}

TEST_F(LayerStreamTest, StopsReplyingWhenTheCoordinatorCannotBeReached) {
  coordinator_listens_ = false;
  const v1::NodeRequest message = Message(GeneratedWork(spec_, 1, 1, 1));
  EXPECT_EQ(Serve({message, message, message}).size(), 1u);
  EXPECT_EQ(gate_.num_inside(), 0);
}

TEST_F(LayerStreamTest, IgnoresAnEmptyMessage) {
  EXPECT_TRUE(Serve({v1::NodeRequest()}).empty());
  EXPECT_EQ(counters_.layer_requests, 0u);
  EXPECT_EQ(counters_.refused, 0u);
}

}  // namespace
}  // namespace deltafin
