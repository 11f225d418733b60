#include "coordinator/frontend/cluster_feed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "absl/time/clock.h"
#include "tests/unit/coordinator/frontend/recorded_reply.h"

namespace deltafin {
namespace {

using ::testing::HasSubstr;
using testing::RecordedReply;
using ::testing::StartsWith;

class ClusterFeedTest : public ::testing::Test {
 protected:
  ClusterFeedTest() { Start({}); }

  void Start(ClusterFeedOptions options) {
    options.interval = absl::Milliseconds(5);
    feed_ = std::make_unique<ClusterFeed>(
        options,
        ClusterFeed::Texts{[this] { return std::to_string(++num_snapshots_); },
                           [] { return std::string("warm"); }});
  }
  std::shared_ptr<RecordedReply> Look() {
    auto reply = std::make_shared<RecordedReply>();
    feed_->AddStream(reply);
    return reply;
  }

  std::atomic<int> num_snapshots_ = 0;
  std::unique_ptr<ClusterFeed> feed_;
};

TEST_F(ClusterFeedTest, ANewStreamHearsOfHeatAndClusterAtOnce) {
  const auto reply = Look();
  EXPECT_THAT(reply->AwaitBody("cluster"),
              StartsWith("event: heat\ndata: warm\n\nevent: cluster\ndata: "));
  EXPECT_EQ(reply->status(), 200);
  EXPECT_EQ(reply->header("Content-Type"), "text/event-stream");
}

TEST_F(ClusterFeedTest, GoesOnTellingWithHeatNowAndThen) {
  const auto reply = Look();
  const std::string body = reply->AwaitBody("event: heat", 3);
  EXPECT_GE(num_snapshots_, 8);
  EXPECT_THAT(body, HasSubstr("event: cluster\ndata: 5\n\n"));
}

TEST_F(ClusterFeedTest, AllWhoLookHearTheSame) {
  const auto first = Look();
  const auto second = Look();
  second->AwaitBody("event: cluster", 2);
  const std::string told = "data: " + std::to_string(num_snapshots_ + 3) + "\n";
  first->AwaitBody(told);
  second->AwaitBody(told);
}

TEST_F(ClusterFeedTest, WorksOnlyWhileSomebodyLooks) {
  const auto reply = Look();
  reply->AwaitBody("event: cluster", 2);
  reply->Go();
  while (feed_->num_streams() > 0) absl::SleepFor(absl::Milliseconds(1));
  const int asked = num_snapshots_;
  // The one question is the only thing that is worked on.
  const auto once = std::make_shared<RecordedReply>();
  feed_->SendSnapshot(once);
  once->AwaitEnd();
  EXPECT_EQ(once->body(), std::to_string(asked + 1));
  EXPECT_EQ(once->header("Content-Type"), "application/json");
}

TEST_F(ClusterFeedTest, RefusesStreamsAboveItsBound) {
  ClusterFeedOptions options;
  options.max_streams = 1;
  Start(options);
  const auto first = Look();
  const auto second = Look();
  EXPECT_EQ(first->status(), 200);
  EXPECT_EQ(second->status(), 503);
  EXPECT_THAT(second->body(), HasSubstr("too_many_streams"));
}

TEST_F(ClusterFeedTest, ShutdownEndsTheStreams) {
  const auto reply = Look();
  feed_->Shutdown();
  reply->AwaitEnd();
  feed_->Shutdown();
  EXPECT_EQ(Look()->status(), 503);
}

}  // namespace
}  // namespace deltafin
