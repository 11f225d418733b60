#include "coordinator/engine/reduction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "absl/time/clock.h"
#include "kernels/kernel_registry.h"

namespace deltafin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kLatent = 2;

// Two tokens with experts 0 and 1 of two slices over two nodes: each node has
// one part with both tokens and half of the slices.
class ReductionTest : public ::testing::Test {
 protected:
  ReductionTest() : reduction_(plan_, BestKernel().elementwise, kLatent) {
    const auto policy = NewProportionalCut(std::vector<double>{1, 1}, 2);
    plan_.Build(
        {5, 10, 3}, {2, 2, experts_, weights_, {}}, 2,
        [&](int32_t expert, std::vector<NodeRun>* runs) {
          policy->Cut({3, expert}, runs);
        },
        [](int32_t) { return 1.0; });
    for (const int node : {0, 1}) plan_.part({node, 0}).sent = absl::Now();
    reduction_.Begin();
  }

  static v1::LayerReply Reply(std::vector<int64_t> sums) {
    v1::LayerReply reply;
    reply.set_epoch(5);
    reply.set_step(10);
    reply.set_layer(3);
    reply.add_token(0);
    reply.add_token(1);
    reply.set_sums(sums.data(), sums.size() * sizeof(int64_t));
    reply.set_slices_computed(4);
    return reply;
  }

  static v1::LayerReply PartOne() {
    v1::LayerReply reply = Reply({1, 2, 3, 4});
    reply.set_part(1);
    return reply;
  }

  static v1::LayerReply Error(uint32_t code, uint32_t expert, uint32_t token) {
    v1::LayerReply reply = Reply({});
    reply.set_status_code(code);
    reply.set_error_expert(expert);
    reply.set_error_token(token);
    reply.set_status_message("expert " + std::to_string(expert) + " token " +
                             std::to_string(token));
    return reply;
  }

  void ExpectRefused(const v1::LayerReply& reply, const char* why) {
    const auto use = reduction_.Add(0, reply);
    EXPECT_EQ(use.status().code(), absl::StatusCode::kDataLoss) << why;
    EXPECT_THAT(std::string(use.status().message()), HasSubstr(why));
    EXPECT_EQ(plan_.num_open(0), 1);
    EXPECT_FALSE(reduction_.node_refused());
  }

  const std::vector<int32_t> experts_ = {0, 1, 0, 1};
  const std::vector<float> weights_ = {1, 1, 1, 1};
  DispatchPlan plan_;
  Reduction reduction_;
};

TEST_F(ReductionTest, AddsTheRowsOfAllNodes) {
  EXPECT_EQ(*reduction_.Add(1, Reply({1, -2, 3, 4})), ReplyUse::kCounted);
  EXPECT_FALSE(plan_.complete());
  EXPECT_EQ(*reduction_.Add(0, Reply({10, 20, 30, -40})), ReplyUse::kCounted);
  EXPECT_TRUE(plan_.complete());
  EXPECT_TRUE(reduction_.status().ok());
  EXPECT_THAT(reduction_.totals(), ElementsAre(11, 18, 33, -36));
}

TEST_F(ReductionTest, DropsLateAndDuplicateReplies) {
  ASSERT_TRUE(reduction_.Add(0, Reply({1, 1, 1, 1})).ok());
  EXPECT_EQ(*reduction_.Add(0, Reply({1, 1, 1, 1})), ReplyUse::kDropped);
  v1::LayerReply late = Reply({7, 7, 7, 7});
  late.set_layer(2);
  EXPECT_EQ(*reduction_.Add(1, late), ReplyUse::kDropped);
  late = Reply({7, 7, 7, 7});
  late.set_step(9);
  late.set_layer(50);
  EXPECT_EQ(*reduction_.Add(1, late), ReplyUse::kDropped);
  late = Reply({7, 7, 7, 7});
  late.set_epoch(4);
  EXPECT_EQ(*reduction_.Add(1, late), ReplyUse::kDropped);
  EXPECT_FALSE(plan_.complete());
  ASSERT_TRUE(reduction_.Add(1, Reply({0, 0, 0, 0})).ok());
  EXPECT_THAT(reduction_.totals(), ElementsAre(1, 1, 1, 1));
}

TEST_F(ReductionTest, RefusesRepliesThatAnswerSomethingElse) {
  v1::LayerReply reply = Reply({1, 2, 3, 4});
  reply.set_layer(4);
  ExpectRefused(reply, "not asked yet");
  reply = Reply({1, 2, 3, 4});
  reply.set_step(11);
  ExpectRefused(reply, "not asked yet");
  reply = Reply({1, 2, 3, 4});
  reply.set_epoch(6);
  ExpectRefused(reply, "not asked yet");
  reply = Reply({1, 2, 3, 4});
  reply.set_part(1);
  ExpectRefused(reply, "part 1 of 1");
  reply.set_part(0xffffffff);
  ExpectRefused(reply, "part 4294967295");
}

TEST_F(ReductionTest, RefusesRepliesOfTheWrongShape) {
  ExpectRefused(Reply({1, 2, 3}), "sums of 24 bytes, expected 32");
  v1::LayerReply reply = Reply({1, 2, 3, 4});
  reply.add_token(2);
  ExpectRefused(reply, "3 rows where 2 had work");
  reply = Reply({1, 2, 3, 4});
  reply.set_token(1, 0);
  ExpectRefused(reply, "row 0 stands where row 1");
  reply = Reply({1, 2, 3, 4});
  reply.set_token(0, 1);
  reply.set_token(1, 0);
  ExpectRefused(reply, "row 1 stands where row 0");
  reply = Reply({1, 2, 3, 4});
  reply.set_slices_computed(3);
  ExpectRefused(reply, "3 slices computed, 4 asked");
}

TEST_F(ReductionTest, RefusesCountersAndSumsThatCannotBe) {
  v1::LayerReply reply = Reply({1, 2, 3, 4});
  reply.set_bytes_read(static_cast<uint64_t>(-5));
  ExpectRefused(reply, "counter");
  reply = Reply({1, 2, 3, 4});
  reply.mutable_timings()->set_read_us(~uint64_t{0});
  ExpectRefused(reply, "counter");
  // Each row has two terms here, each at most 2^55 - 2^7.
  const int64_t largest = 2 * ((int64_t{1} << 55) - 128);
  ExpectRefused(Reply({0, 0, largest + 1, 0}), "row 1 holds a sum");
  ExpectRefused(Reply({INT64_MIN, 0, 0, 0}), "row 0 holds a sum");
  EXPECT_TRUE(reduction_.Add(0, Reply({largest, -largest, 0, 0})).ok());
}

TEST_F(ReductionTest, ReportsTheLowestErrorOverAllNodes) {
  constexpr uint32_t kOutOfRange = 11;
  ASSERT_TRUE(reduction_.Add(0, Error(kOutOfRange, 1, 0)).ok());
  ASSERT_TRUE(reduction_.Add(1, Error(kOutOfRange, 0, 1)).ok());
  EXPECT_TRUE(plan_.complete());
  EXPECT_EQ(reduction_.status(), absl::OutOfRangeError("expert 0 token 1"));
  EXPECT_EQ(reduction_.error_node(), 1);
  reduction_.Begin();
  EXPECT_TRUE(reduction_.status().ok());
}

TEST_F(ReductionTest, PassesANodesOwnErrorOn) {
  const auto use = reduction_.Add(0, Error(8, 0, 0));
  EXPECT_EQ(use.status(), absl::ResourceExhaustedError("expert 0 token 0"));
  EXPECT_TRUE(reduction_.node_refused());
  EXPECT_EQ(plan_.num_open(0), 1);
}

TEST_F(ReductionTest, DropsTheReplyOfAPartThatOthersDid) {
  plan_.Replace({0, 0}, std::vector<std::vector<NodeRun>>(
                            4, std::vector<NodeRun>{{1, {0, 1}}}));
  EXPECT_THAT(std::string(reduction_.Add(1, PartOne()).status().message()),
              HasSubstr("part 1, which was not sent"));
  plan_.part({1, 1}).sent = absl::Now();
  EXPECT_EQ(*reduction_.Add(1, PartOne()), ReplyUse::kCounted);
  EXPECT_EQ(*reduction_.Add(0, Reply({9, 9, 9, 9})), ReplyUse::kDropped);
  EXPECT_EQ(*reduction_.Add(1, Reply({1, 1, 1, 1})), ReplyUse::kCounted);
  EXPECT_TRUE(plan_.complete());
  EXPECT_THAT(reduction_.totals(), ElementsAre(2, 3, 4, 5));
}

TEST_F(ReductionTest, RefusesErrorsAboutWhatWasNotAsked) {
  ExpectRefused(Error(77, 0, 0), "status code 77");
  ExpectRefused(Error(11, 0, 2), "row 2 expert 0, not asked");
  ExpectRefused(Error(11, 9, 0), "row 0 expert 9, not asked");
}

}  // namespace
}  // namespace deltafin
