#include "coordinator/frontend/text_sink.h"

#include <optional>

#include "gtest/gtest.h"
#include "tests/unit/coordinator/frontend/text_fixtures.h"

namespace deltafin {
namespace {

struct Received {
  std::string content;
  std::string reasoning;
  std::vector<int32_t> ids;
  std::optional<RequestResult> result;
  std::vector<ToolCall> calls;
};

TextCallbacks Into(Received& received) {
  return {[&](const TextDelta& delta) {
            received.content += delta.content;
            received.reasoning += delta.reasoning;
            if (delta.token != nullptr) {
              received.ids.push_back(delta.token->id);
            }
          },
          nullptr,
          [&](const RequestResult& result, std::vector<ToolCall> calls) {
            received.result = result;
            received.calls = std::move(calls);
          }};
}

// Feeds ids until the sink stops; returns what it gave.
Received Feed(const std::vector<int32_t>& ids, TextSinkOptions options,
              FinishReason reason = FinishReason::kStop) {
  Received received;
  const auto sink =
      *TextSink::Create(NanoTokenizer(), std::move(options), Into(received));
  for (const int32_t id : ids) {
    TokenEvent event;
    event.id = id;
    if (sink->OnToken(event) == SinkAction::kStop) {
      reason = FinishReason::kStopString;
      break;
    }
  }
  RequestResult result;
  result.finish_reason = reason;
  sink->OnFinish(result);
  return received;
}

TEST(TextSinkTest, PlainContentIsTheDecodingOfTheIds) {
  auto ids = ControlIds("Some text.<|close|>think<|sep|><|end_of_msg|>");
  ids.push_back(*NanoTokenizer().vocabulary().FindRank("\xE2"));
  const Received received = Feed(ids, {});
  EXPECT_EQ(received.content, *NanoTokenizer().Decode(ids));
  EXPECT_EQ(received.ids, ids);
  EXPECT_EQ(received.reasoning, "");
}

TEST(TextSinkTest, ChatGoesToItsChannels) {
  const auto ids = ControlIds(
      "r<|close|>think<|sep|><|open|>response<|sep|>c"
      "<|close|>response<|sep|><|open|>tools<|sep|>"
      "<|open|>call tool=\"f\"<|sep|><|end_of_msg|>");
  const Received received = Feed(ids, {OutputChannel::kThink, {}});
  EXPECT_EQ(received.reasoning, "r");
  EXPECT_EQ(received.content, "c");
  ASSERT_EQ(received.calls.size(), 1u);
  EXPECT_EQ(received.calls[0].name, "f");
}

TEST(TextSinkTest, StopsAtAStopStringAcrossTokens) {
  const auto ids = *NanoTokenizer().Encode("one two three four five");
  const Received received = Feed(ids, {std::nullopt, {"ee fo"}});
  EXPECT_EQ(received.content, "one two thr");
  EXPECT_LT(received.ids.size(), ids.size());
  EXPECT_EQ(received.result->finish_reason, FinishReason::kStopString);
}

TEST(TextSinkTest, ReasoningIsNotSearchedForStopStrings) {
  const auto ids =
      ControlIds("a stop<|close|>think<|sep|><|open|>response<|sep|>b stop c");
  const Received received = Feed(ids, {OutputChannel::kThink, {"stop"}});
  EXPECT_EQ(received.reasoning, "a stop");
  EXPECT_EQ(received.content, "b ");
}

TEST(TextSinkTest, TextHeldBackComesWithTheEnd) {
  const auto ids = *NanoTokenizer().Encode("almost EN");
  const Received received =
      Feed(ids, {std::nullopt, {"END"}}, FinishReason::kLength);
  EXPECT_EQ(received.content, "almost EN");
}

TEST(TextSinkTest, ACallCutByLengthIsNotReported) {
  const auto ids = ControlIds(
      "<|open|>tools<|sep|><|open|>call tool=\"f\"<|sep|>"
      "<|open|>argument key=\"k\" type=\"string\"<|sep|>half");
  EXPECT_TRUE(Feed(ids, {OutputChannel::kThink, {}}, FinishReason::kLength)
                  .calls.empty());
}

TEST(TextSinkTest, PassesLogitsOn) {
  Received received;
  TextCallbacks callbacks = Into(received);
  std::vector<int64_t> positions;
  callbacks.on_logits = [&](int64_t position, std::span<const float> logits) {
    positions.push_back(position);
    EXPECT_EQ(logits.size(), 3u);
  };
  const auto sink =
      *TextSink::Create(NanoTokenizer(), {}, std::move(callbacks));
  const float logits[] = {1, 2, 3};
  sink->OnLogits(0, logits);
  sink->OnLogits(1, logits);
  EXPECT_EQ(positions, (std::vector<int64_t>{0, 1}));
}

TEST(TextSinkTest, RefusesBadStopStrings) {
  Received received;
  EXPECT_EQ(
      TextSink::Create(NanoTokenizer(), {std::nullopt, {""}}, Into(received))
          .status()
          .code(),
      absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace deltafin
