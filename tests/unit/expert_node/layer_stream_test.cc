#include "expert_node/layer_stream.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

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
    return {spec_, *engine_, counters_, gate_, 128, limits_, nullptr, nullptr};
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
  RequestQueueLimits limits_;
  absl::Status served_;

  // Serves `messages`, then the end of the stream; returns the replies.
  std::vector<v1::LayerReply> Serve(std::vector<v1::NodeRequest> messages) {
    const LayerStreamContext context = Context();
    size_t next = 0;
    std::vector<v1::LayerReply> replies;
    served_ = LayerStream(
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

TEST_F(LayerStreamTest, AMessageWithoutARequestEndsTheStreamWithAStatus) {
  EXPECT_TRUE(Serve({v1::NodeRequest()}).empty());
  EXPECT_EQ(served_,
            absl::InvalidArgumentError(
                "request: missing, want layer, cancel or expect; the stream "
                "ends"));
}

TEST_F(LayerStreamTest, AStreamThatEndsByItselfHasNoError) {
  Serve({Message(GeneratedWork(spec_, 1, 1, 1))});
  EXPECT_TRUE(served_.ok()) << served_;
}

// Parts of one layer, each telling how many there are.
std::vector<LayerWork> AnnouncedParts(const ModelSpec& spec, int num_parts,
                                      int num_tokens) {
  std::vector<LayerWork> parts;
  for (int part = 0; part < num_parts; ++part) {
    parts.push_back(GeneratedWork(spec, 1, num_tokens, part));
    parts.back().part = part;
    parts.back().num_parts = num_parts;
  }
  return parts;
}

// A store with room for three of the eight experts that the parts need.
class SmallMemoryTest : public LayerStreamTest {
 protected:
  SmallMemoryTest() {
    engine_.reset();
    auto lower = std::make_unique<GeneratedStore>(kShape);
    store_ = lower.get();
    tiers_ = *TieredStore::Create(
        std::move(lower),
        {3 * ExpertCache::SlotBytes(kShape.slice_offset(1)), 1});
    engine_ =
        std::make_unique<ExpertEngine>(BestKernel(), spec_.situ, *tiers_, 2);
    limits_.part_wait = absl::InfiniteDuration();
  }

  v1::LayerReply Alone(LayerWork part) {
    part.num_parts = 0;
    return Serve({Message(part)}).at(0);
  }
};

TEST_F(SmallMemoryTest, AnnouncedPartsReadEverySliceOnceInAnyOrder) {
  const auto parts = AnnouncedParts(spec_, 4, 128);
  const auto replies = Serve({Message(parts[2]), Message(parts[0]),
                              Message(parts[3]), Message(parts[1])});
  EXPECT_EQ(store_->num_slices_read(), spec_.num_experts);
  ASSERT_EQ(replies.size(), 4u);
  uint64_t bytes_read = 0;
  for (const v1::LayerReply& reply : replies) {
    bytes_read += reply.bytes_read();
    const v1::LayerReply alone = Alone(parts.at(reply.part()));
    EXPECT_EQ(reply.status_code(), 0u) << reply.status_message();
    EXPECT_EQ(reply.sums(), alone.sums()) << "part " << reply.part();
    EXPECT_EQ(reply.slices_computed(), alone.slices_computed());
  }
  EXPECT_EQ(bytes_read, spec_.num_experts * kShape.payload_bytes());
  EXPECT_GT(store_->num_slices_read(), 3 * spec_.num_experts);
}

TEST_F(SmallMemoryTest, ABadPartAmongGoodOnesIsRefusedAlone) {
  const auto parts = AnnouncedParts(spec_, 3, 9);
  v1::NodeRequest bad = Message(parts[1]);
  bad.mutable_layer()->set_expert(5, 77);
  const auto replies = Serve({Message(parts[0]), bad, Message(parts[2])});
  ASSERT_EQ(replies.size(), 3u);
  EXPECT_EQ(replies[1].part(), 1u);
  EXPECT_EQ(replies[1].status_message(), "expert[5]: 77, the model has 8");
  EXPECT_EQ(replies[0].sums(), Alone(parts[0]).sums());
  EXPECT_EQ(replies[2].sums(), Alone(parts[2]).sums());
  EXPECT_EQ(counters_.refused, 1u);
}

TEST_F(SmallMemoryTest, ACancelledStepsWaitingPartsAreAnsweredWithoutReading) {
  const auto parts = AnnouncedParts(spec_, 3, 9);
  v1::NodeRequest cancel;
  cancel.mutable_cancel()->set_epoch(parts[0].epoch);
  cancel.mutable_cancel()->set_step(parts[0].step);
  const auto replies =
      Serve({Message(parts[0]), Message(parts[1]), cancel, Message(parts[2])});
  ASSERT_EQ(replies.size(), 3u);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(replies[i].status_code(),
              static_cast<uint32_t>(absl::StatusCode::kCancelled));
  }
  // It came after the cancellation: a request of its own.
  EXPECT_EQ(replies[2].sums(), Alone(parts[2]).sums());
  EXPECT_EQ(counters_.cancelled, 2u);
}

TEST_F(SmallMemoryTest, PartsThatNeverComeHoldNothingUp) {
  limits_.part_wait = absl::Milliseconds(1);
  const auto parts = AnnouncedParts(spec_, 4, 2);
  const LayerStreamContext context = Context();
  std::mutex mutex;
  std::condition_variable changed;
  int num_sent = 0, num_replies = 0;
  LayerStream(
      context,
      [&](v1::NodeRequest* message) {
        if (num_sent < 2) {
          *message = Message(parts[num_sent++]);
          return Received::kMessage;
        }
        std::unique_lock lock(mutex);  // the coordinator waits for its replies
        changed.wait(lock, [&] { return num_replies == 2; });
        return Received::kEnd;
      },
      [&](const v1::LayerReply&) {
        std::lock_guard lock(mutex);
        ++num_replies;
        changed.notify_all();
        return true;
      })
      .Serve()
      .IgnoreError();
  EXPECT_EQ(num_replies, 2);
}

}  // namespace
}  // namespace deltafin
