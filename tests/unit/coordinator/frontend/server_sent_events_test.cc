#include "coordinator/frontend/server_sent_events.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/manual_clock.h"
#include "tests/testing/recorded_reply.h"

namespace deltafin {
namespace {

using ::testing::HasSubstr;
using testing::RecordedReply;

constexpr char kComment[] = ": waiting\n\n";

class EventStreamTest : public ::testing::Test {
 protected:
  std::shared_ptr<EventStream> Make(EventStreamOptions options = {}) {
    return std::make_shared<EventStream>(options, clock_,
                                         [this] { ++num_abandoned_; });
  }
  static EventStreamOptions Resumable(absl::Duration away) {
    EventStreamOptions options;
    options.resumable = away;
    return options;
  }
  static bool Say(EventStream& stream, const std::string& data) {
    const ServerEvent event = {"", data};
    return stream.Send(std::span(&event, 1));
  }

  ManualClock clock_;
  int num_abandoned_ = 0;
};

TEST(ServerEventTest, HasItsFieldsInLines) {
  EXPECT_EQ(EventText({"", "x"}), "data: x\n\n");
  EXPECT_EQ(EventText({"delta", "x"}, 7), "id: 7\nevent: delta\ndata: x\n\n");
}

TEST_F(EventStreamTest, BeginsAtOnceWithAComment) {
  const auto stream = Make();
  const auto reply = std::make_shared<RecordedReply>();
  ASSERT_TRUE(stream->Attach(reply, {{"X-A", "b"}}, 1).ok());
  EXPECT_EQ(reply->status(), 200);
  EXPECT_EQ(reply->header("X-A"), "b");
  EXPECT_EQ(reply->header("Content-Type"), "text/event-stream; charset=utf-8");
  EXPECT_EQ(reply->body(), kComment);
  EXPECT_TRUE(Say(*stream, "one"));
  stream->End();
  EXPECT_EQ(reply->body(), std::string(kComment) + "data: one\n\n");
  EXPECT_TRUE(reply->is_ended());
  EXPECT_FALSE(Say(*stream, "late"));
}

TEST_F(EventStreamTest, SaysSomethingAtLeastEveryTenSeconds) {
  const auto stream = Make();
  const auto reply = std::make_shared<RecordedReply>();
  ASSERT_TRUE(stream->Attach(reply, {}, 1).ok());
  std::string expected = kComment;
  for (int second = 1; second <= 400; ++second) {
    clock_.Advance(absl::Seconds(1));
    EXPECT_TRUE(stream->OnPulse());
    if (second % 10 == 0) expected += kComment;
    ASSERT_EQ(reply->body(), expected) << second;
  }
  clock_.Advance(absl::Seconds(9));
  Say(*stream, "x");  // begins the silence anew
  clock_.Advance(absl::Seconds(9));
  stream->OnPulse();
  EXPECT_EQ(reply->body(), expected + "data: x\n\n");
  stream->End();
  EXPECT_FALSE(stream->OnPulse());
}

TEST_F(EventStreamTest, SendsAnEmptyEventToThoseWhoIgnoreComments) {
  EventStreamOptions options;
  options.empty_event = ServerEvent{"", "{}"};
  const auto stream = Make(options);
  const auto reply = std::make_shared<RecordedReply>();
  ASSERT_TRUE(stream->Attach(reply, {}, 1).ok());
  clock_.Advance(absl::Seconds(10));
  stream->OnPulse();
  EXPECT_EQ(reply->body(), std::string(kComment) + "data: {}\n\n");
}

TEST_F(EventStreamTest, WaitsForItsFirstClient) {
  const auto stream = Make();
  clock_.Advance(absl::Seconds(1));
  EXPECT_TRUE(stream->OnPulse());
  const auto reply = std::make_shared<RecordedReply>();
  ASSERT_TRUE(stream->Attach(reply, {}, 1).ok());
  EXPECT_TRUE(Say(*stream, "x"));
  EXPECT_EQ(num_abandoned_, 0);
}

TEST_F(EventStreamTest, IsAbandonedOnceWhenItsClientGoes) {
  const auto stream = Make();
  const auto reply = std::make_shared<RecordedReply>();
  ASSERT_TRUE(stream->Attach(reply, {}, 1).ok());
  reply->GoAway();
  EXPECT_EQ(num_abandoned_, 1);
  EXPECT_FALSE(Say(*stream, "x"));
  EXPECT_FALSE(stream->OnPulse());
  EXPECT_EQ(num_abandoned_, 1);
}

TEST_F(EventStreamTest, AClientThatWentBeforeItBeganIsNoticed) {
  const auto stream = Make();
  const auto reply = std::make_shared<RecordedReply>();
  reply->GoAway();
  ASSERT_TRUE(stream->Attach(reply, {}, 1).ok());
  stream->OnPulse();
  EXPECT_EQ(num_abandoned_, 1);
}

TEST_F(EventStreamTest, ResumesAfterTheLastEventThatCame) {
  const auto stream = Make(Resumable(absl::Seconds(30)));
  const auto first = std::make_shared<RecordedReply>();
  ASSERT_TRUE(stream->Attach(first, {}, 1).ok());
  Say(*stream, "one");
  first->GoAway();
  EXPECT_TRUE(Say(*stream, "two"));
  clock_.Advance(absl::Seconds(29));
  EXPECT_TRUE(stream->OnPulse());
  const auto second = std::make_shared<RecordedReply>();
  ASSERT_TRUE(stream->Attach(second, {}, 2).ok());
  Say(*stream, "three");
  stream->End();
  EXPECT_EQ(second->body(), std::string(kComment) +
                                "id: 2\ndata: two\n\nid: 3\ndata: three\n\n");
  EXPECT_TRUE(second->is_ended());
  EXPECT_EQ(num_abandoned_, 0);
  // The end can be fetched again.
  const auto third = std::make_shared<RecordedReply>();
  ASSERT_TRUE(stream->Attach(third, {}, 4).ok());
  EXPECT_EQ(third->body(), kComment);
  EXPECT_TRUE(third->is_ended());
}

TEST_F(EventStreamTest, IsAbandonedWhenNobodyResumes) {
  const auto stream = Make(Resumable(absl::Seconds(30)));
  const auto reply = std::make_shared<RecordedReply>();
  ASSERT_TRUE(stream->Attach(reply, {}, 1).ok());
  reply->GoAway();
  clock_.Advance(absl::Seconds(29));
  EXPECT_TRUE(stream->OnPulse());
  EXPECT_TRUE(stream->is_resumable());
  clock_.Advance(absl::Seconds(1));
  EXPECT_FALSE(stream->is_resumable());
  EXPECT_FALSE(stream->OnPulse());
  EXPECT_EQ(num_abandoned_, 1);
  EXPECT_FALSE(Say(*stream, "x"));
}

TEST_F(EventStreamTest, ANewClientTakesOverFromTheOneBefore) {
  const auto stream = Make(Resumable(absl::Seconds(30)));
  const auto first = std::make_shared<RecordedReply>();
  const auto second = std::make_shared<RecordedReply>();
  ASSERT_TRUE(stream->Attach(first, {}, 1).ok());
  Say(*stream, "one");
  ASSERT_TRUE(stream->Attach(second, {}, 1).ok());
  EXPECT_TRUE(first->is_ended());
  Say(*stream, "two");
  EXPECT_THAT(second->body(), HasSubstr("id: 1\ndata: one\n\nid: 2\n"));
}

TEST_F(EventStreamTest, ForgetsOldEventsBeyondItsBound) {
  EventStreamOptions options = Resumable(absl::Seconds(30));
  options.max_kept_bytes = 40;  // two of 17 bytes
  const auto stream = Make(options);
  const auto reply = std::make_shared<RecordedReply>();
  ASSERT_TRUE(stream->Attach(reply, {}, 1).ok());
  for (const char* data : {"aaa", "bbb", "ccc"}) Say(*stream, data);
  const auto late = std::make_shared<RecordedReply>();
  EXPECT_TRUE(absl::IsOutOfRange(stream->Attach(late, {}, 1)));
  EXPECT_TRUE(absl::IsOutOfRange(stream->Attach(late, {}, 5)));
  EXPECT_EQ(late->status(), 0);
  EXPECT_TRUE(stream->Attach(late, {}, 2).ok());
}

}  // namespace
}  // namespace deltafin
