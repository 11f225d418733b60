#include "common/net/http_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace deltafin {
namespace {

using Stage = HttpExchange::Stage;
using ::testing::HasSubstr;

class HttpExchangeTest : public ::testing::Test {
 protected:
  std::shared_ptr<HttpExchange> Make(size_t max_unread_bytes = 100) {
    return std::make_shared<HttpExchange>(
        HttpAnswerTerms{.keeps_alive = true,
                        .max_unread_bytes = max_unread_bytes},
        [this] { ++num_wakes_; });
  }

  int num_wakes_ = 0;
};

TEST_F(HttpExchangeTest, WakesOnceUntilItsOutputIsTaken) {
  const auto exchange = Make();
  exchange->Begin(200, {});
  exchange->Write("a");
  exchange->Write("b");
  EXPECT_EQ(num_wakes_, 1);
  const HttpExchange::Output first = exchange->TakeOutput();
  EXPECT_THAT(first.bytes, ::testing::EndsWith("\r\n1\r\na\r\n1\r\nb\r\n"));
  EXPECT_EQ(first.stage, Stage::kOpen);
  exchange->End();
  EXPECT_EQ(num_wakes_, 2);
  EXPECT_EQ(exchange->TakeOutput().stage, Stage::kEnded);
}

TEST_F(HttpExchangeTest, CountsBytesAsUnreadUntilTheyAreSent) {
  const auto exchange = Make(/*max_unread_bytes=*/300);
  exchange->Begin(200, {});
  exchange->MarkSent(exchange->TakeOutput().bytes.size());
  const std::string part(140, 'x');
  EXPECT_TRUE(exchange->Write(part));
  const size_t num_taken = exchange->TakeOutput().bytes.size();
  EXPECT_TRUE(exchange->Write(part));
  exchange->MarkSent(num_taken);
  EXPECT_TRUE(exchange->Write(part));
  EXPECT_EQ(exchange->stage(), Stage::kOpen);
  const int num_wakes = num_wakes_;
  EXPECT_FALSE(exchange->Write(part));
  EXPECT_EQ(exchange->stage(), Stage::kOverflown);
  EXPECT_EQ(num_wakes_, num_wakes + 1);  // although output waits already
  EXPECT_FALSE(exchange->Write(""));
  int num_gone = 0;
  exchange->OnGone([&num_gone] { ++num_gone; });
  EXPECT_EQ(num_gone, 0);
  exchange->Leave();
  EXPECT_EQ(num_gone, 1);
}

TEST_F(HttpExchangeTest, TakesNoOtherOrderOfCalls) {
  const auto exchange = Make();
  EXPECT_FALSE(exchange->Write("too early"));
  exchange->End();
  EXPECT_EQ(exchange->TakeOutput().bytes, "");
  exchange->Begin(200, {});
  exchange->Begin(201, {});
  exchange->Send(202, {}, "x");
  exchange->End();
  exchange->End();
  const std::string all = exchange->TakeOutput().bytes;
  EXPECT_THAT(all, ::testing::StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(all, ::testing::EndsWith("\r\n\r\n0\r\n\r\n"));
  EXPECT_THAT(all, ::testing::Not(HasSubstr("201")));
}

TEST_F(HttpExchangeTest, DoesNotWakeAConnectionThatHasLeft) {
  const auto exchange = Make();
  exchange->Leave();
  exchange->Send(200, {}, "x");
  EXPECT_EQ(num_wakes_, 0);
  EXPECT_EQ(exchange->stage(), Stage::kGone);
  EXPECT_EQ(exchange->TakeOutput().bytes, "");
}

TEST_F(HttpExchangeTest, DropsWhatWouldBeCalledWhenTheAnswerEnds) {
  auto held = std::make_shared<int>(0);
  const auto exchange = Make();
  exchange->OnGone([held] { ++*held; });
  exchange->OnGone([held] { *held += 10; });
  EXPECT_EQ(held.use_count(), 2);
  exchange->Send(200, {}, "x");
  EXPECT_EQ(held.use_count(), 1);
  exchange->OnGone([held] { ++*held; });
  exchange->Leave();
  EXPECT_EQ(*held, 0);
  EXPECT_EQ(held.use_count(), 1);
}

TEST_F(HttpExchangeTest, CallsTheLatestWhenTheClientGoes) {
  const auto exchange = Make();
  int called = 0;
  exchange->OnGone([&called] { called = 1; });
  exchange->OnGone([&called] { called = 2; });
  exchange->Leave();
  EXPECT_EQ(called, 2);
}

TEST_F(HttpExchangeTest, SaysWhenTheConnectionEndsWithIt) {
  const auto kept = Make();
  kept->Send(200, {}, "x");
  EXPECT_THAT(kept->TakeOutput().bytes,
              ::testing::Not(HasSubstr("Connection:")));
  EXPECT_TRUE(kept->keeps_alive());
  const auto last = Make();
  last->SetLast();
  last->Send(200, {}, "x");
  EXPECT_THAT(last->TakeOutput().bytes, HasSubstr("Connection: close\r\n"));
  EXPECT_FALSE(last->keeps_alive());
}

TEST_F(HttpExchangeTest, AnswersForAReplyThatIsDropped) {
  const auto unanswered = Make();
  HttpExchange::MakeReply(unanswered).reset();
  EXPECT_EQ(unanswered->stage(), Stage::kEnded);
  EXPECT_THAT(unanswered->TakeOutput().bytes,
              ::testing::StartsWith("HTTP/1.1 500 "));
  const auto half = Make();
  {
    const auto reply = HttpExchange::MakeReply(half);
    reply->Begin(200, {});
  }
  EXPECT_EQ(half->stage(), Stage::kCut);
}

}  // namespace
}  // namespace deltafin
