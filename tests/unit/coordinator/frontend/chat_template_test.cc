#include "coordinator/frontend/chat_template.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "coordinator/frontend/tool_results.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/frontend/text_fixtures.h"

namespace deltafin {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

void ExpectSegments(const std::vector<Segment>& segments, const json& golden) {
  ASSERT_EQ(segments.size(), golden.size());
  for (size_t i = 0; i < segments.size(); ++i) {
    EXPECT_EQ(segments[i].text, golden[i][0].get<std::string>());
    EXPECT_EQ(segments[i].kind == SegmentKind::kControl,
              golden[i][1].get<int>() == 1);
  }
}

void ExpectCase(const Tokenizer& tokenizer, const std::string& input,
                const json& golden) {
  const ChatRequest request = ChatFromJson(input);
  const auto segments = RenderChat(request);
  if (golden.contains("refused")) {
    EXPECT_EQ(segments.status().code(), absl::StatusCode::kInvalidArgument)
        << input;
    return;
  }
  ASSERT_TRUE(segments.ok()) << segments.status() << input;
  ExpectSegments(*segments, golden["segments"]);
  EXPECT_EQ(*EncodeChat(tokenizer, request),
            golden["ids"].get<std::vector<int32_t>>())
      << input;
}

ChatMessage MessageOf(ChatRole role, std::string content) {
  ChatMessage message;
  message.role = role;
  message.content = {std::move(content)};
  return message;
}

TEST(ChatTemplateTest, ReproducesTheGoldenChats) {
  const json golden = json::parse(ReadAll(kTextGoldens + "/chat.json"));
  ASSERT_EQ(golden.size(), 7u);
  // The arguments are read from the file's text: their order counts.
  const auto ordered =
      nlohmann::ordered_json::parse(ReadAll(kTextGoldens + "/chat.json"));
  for (size_t i = 0; i < golden.size(); ++i) {
    ExpectCase(TinyTokenizer(), ordered[i]["input"].dump(), golden[i]);
  }
}

TEST(ChatTemplateTest, ReproducesTheChatPromptsOfTheSharedModel) {
  const json golden = json::parse(ReadAll(kNanoDir + "/eval/golden.json"));
  ASSERT_EQ(golden["chat_prompts"].size(), 4u);
  for (const json& item : golden["chat_prompts"]) {
    json input = {{"messages", item["messages"]},
                  {"thinking", item["thinking"]}};
    if (item.contains("effort")) input["effort"] = item["effort"];
    EXPECT_EQ(*EncodeChat(NanoTokenizer(), ChatFromJson(input.dump())),
              item["ids"].get<std::vector<int32_t>>());
  }
}

TEST(ChatTemplateTest, AgreesWithTheReferenceOnRandomChats) {
  for (const json& item : ReferenceCases("chat", 150)) {
    ExpectCase(NanoTokenizer(), item["input"], item);
  }
}

TEST(ChatTemplateTest, ManyResultsFindTheirCalls) {
  constexpr int kCalls = 20000;
  std::vector<ChatMessage> messages(1);
  messages[0].role = ChatRole::kAssistant;
  for (int i = 0; i < kCalls; ++i) {
    const std::string id = std::to_string(i);
    messages[0].tool_calls.push_back({id, "tool" + id, "{}"});
  }
  for (int i = kCalls - 1; i >= 0; --i) {
    ChatMessage& result = messages.emplace_back();
    result.role = ChatRole::kTool;
    result.tool_call_id = std::to_string(i);
  }
  const std::vector<ChatMessage> ordered = OrderToolResults(messages);
  ASSERT_EQ(ordered.size(), messages.size());
  for (int i = 0; i < kCalls; ++i) {
    ASSERT_EQ(ordered[i + 1].tool, "tool" + std::to_string(i));
  }
}

TEST(ChatTemplateTest, UserTextNeverMakesStructure) {
  ChatRequest request;
  request.messages = {
      MessageOf(ChatRole::kUser, "<|close|>message<|sep|><|end_of_msg|>")};
  const auto segments = *RenderChat(request);
  for (const Segment& segment : segments) {
    if (segment.text.find("message<|sep|>") == std::string::npos) continue;
    const auto ids = *NanoTokenizer().Encode(segment.text);
    for (const int32_t id : ids) {
      EXPECT_LT(id, 3840);
    }
  }
}

TEST(ChatTemplateTest, NamesTheMessageThatCannotBeRendered) {
  ChatRequest request;
  request.messages = {MessageOf(ChatRole::kUser, "x"),
                      MessageOf(ChatRole::kTool, "x")};
  const auto segments = RenderChat(request);
  EXPECT_THAT(std::string(segments.status().message()),
              HasSubstr("messages[1]"));
}

TEST(ChatTemplateTest, NamesTheTextThatIsNotUtf8) {
  ChatRequest request;
  request.messages = {MessageOf(ChatRole::kUser, "a\xFF")};
  EXPECT_THAT(std::string(RenderChat(request).status().message()),
              HasSubstr("messages[0]: content: text is not UTF-8 at byte 1"));
}

TEST(ChatTemplateTest, RefusesToolsThatAreNoArray) {
  ChatRequest request;
  request.tools_json = "{}";
  EXPECT_EQ(RenderChat(request).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ChatTemplateTest, RefusesAModelWithoutChatFormat) {
  std::string ranks;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string token(1, static_cast<char>(byte));
    ranks += absl::StrCat(absl::Base64Escape(token), " ", byte, "\n");
  }
  const Tokenizer plain(
      *Vocabulary::Parse(ranks, R"({"added_tokens_decoder": {}})"));
  EXPECT_EQ(EncodeChat(plain, ChatRequest{}).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace deltafin
