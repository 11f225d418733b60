#include "coordinator/frontend/generate_reply.h"

#include "gtest/gtest.h"

namespace deltafin {
namespace {

TEST(GenerateReplyTest, ATokenCarriesWhatItAdded) {
  const TokenLogprob top[] = {{7, -0.5f}, {9, -2}};
  TokenEvent token;
  token.id = 7;
  token.logprob = -0.5f;
  token.top_logprobs = top;
  const ToolCallDelta calls[] = {{0, "", false, "\"}"}, {1, "time", true, "{"}};
  const v1::GenerateReply reply =
      TokenReply({&token, "text", "thought", calls, OutputPart::kToolCall});
  EXPECT_TRUE(reply.has_token());
  EXPECT_FALSE(reply.has_prompt_token());
  EXPECT_EQ(reply.id(), 7u);
  EXPECT_EQ(reply.text_delta(), "text");
  EXPECT_EQ(reply.reasoning_delta(), "thought");
  ASSERT_EQ(reply.top_logprobs_size(), 2);
  EXPECT_EQ(reply.top_logprobs(1).id(), 9u);
  ASSERT_EQ(reply.tool_call_deltas_size(), 2);
  EXPECT_FALSE(reply.tool_call_deltas(0).begins());
  EXPECT_EQ(reply.tool_call_deltas(0).arguments_json(), "\"}");
  EXPECT_TRUE(reply.tool_call_deltas(1).begins());
  EXPECT_EQ(reply.tool_call_deltas(1).index(), 1u);
  EXPECT_EQ(reply.tool_call_deltas(1).name(), "time");
}

TEST(GenerateReplyTest, TheRestHasNoToken) {
  const v1::GenerateReply reply = TokenReply({nullptr, "end", "", {}});
  EXPECT_FALSE(reply.has_token());
  EXPECT_EQ(reply.text_delta(), "end");
}

TEST(GenerateReplyTest, TheLastSaysHowItEndedAndWhatItCost) {
  RequestResult result;
  result.id = 12;
  result.finish_reason = FinishReason::kStopString;
  result.usage = {30, 20, 8};
  result.timings.prefill = absl::Seconds(2);
  const v1::GenerateReply reply =
      LastReply(result, {{"call_1", "time", "{}"}}, 5);
  EXPECT_EQ(reply.finish_reason(), "stop_string");
  EXPECT_EQ(reply.request_id(), 12u);
  EXPECT_EQ(reply.usage().prompt_tokens(), 30u);
  EXPECT_EQ(reply.usage().cached_prompt_tokens(), 20u);
  EXPECT_EQ(reply.usage().completion_tokens(), 8u);
  EXPECT_EQ(reply.usage().reasoning_tokens(), 5u);
  EXPECT_EQ(reply.timings().prefill_seconds(), 2);
  ASSERT_EQ(reply.tool_calls_size(), 1);
  EXPECT_EQ(reply.tool_calls(0).id(), "call_1");
}

}  // namespace
}  // namespace deltafin
