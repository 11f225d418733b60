#include "coordinator/frontend/generate_request.h"

#include "coordinator/frontend/chat_template.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/frontend/text_fixtures.h"

namespace deltafin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const GenerateDefaults kDefaults = {3840, 77};

absl::StatusOr<ParsedGenerateRequest> Parse(const v1::GenerateRequest& wire) {
  return ParseGenerateRequest(wire, NanoTokenizer(), kDefaults);
}

v1::GenerateRequest TextRequest() {
  v1::GenerateRequest wire;
  wire.set_text("Hello");
  return wire;
}

v1::GenerateRequest ChatRequestOf(const std::string& role) {
  v1::GenerateRequest wire;
  v1::ChatMessage* message = wire.mutable_chat()->add_messages();
  message->set_role(role);
  message->set_content("Hi");
  return wire;
}

void ExpectRefused(const v1::GenerateRequest& wire, const std::string& field) {
  const auto parsed = Parse(wire);
  EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(field));
}

TEST(GenerateRequestTest, DefaultsAreGreedy) {
  const auto parsed = *Parse(TextRequest());
  EXPECT_EQ(parsed.generation.prompt_ids, *NanoTokenizer().Encode("Hello"));
  EXPECT_EQ(parsed.generation.max_new_tokens, 77);
  EXPECT_EQ(parsed.generation.sampling.temperature, 0);
  EXPECT_EQ(parsed.generation.sampling.top_p, 1);
  EXPECT_EQ(parsed.generation.sampling.repetition_penalty, 1);
  EXPECT_FALSE(parsed.generation.want_logprobs);
  EXPECT_FALSE(parsed.text.chat.has_value());
}

TEST(GenerateRequestTest, TakesEveryField) {
  v1::GenerateRequest wire;
  wire.mutable_ids()->add_ids(5);
  wire.set_add_bos(true);
  wire.set_max_new_tokens(9);
  wire.set_ignore_eos(true);
  wire.set_logprobs(3);
  v1::Sampling* sampling = wire.mutable_sampling();
  sampling->set_temperature(0.5f);
  sampling->set_top_p(0.25f);
  sampling->set_top_k(40);
  sampling->set_min_p(0.125f);
  sampling->set_seed(1234);
  sampling->set_presence_penalty(1);
  sampling->set_frequency_penalty(2);
  sampling->set_repetition_penalty(3);
  sampling->set_choice(4);
  v1::LogitBias* bias = sampling->add_logit_bias();
  bias->set_id(17);
  bias->set_bias(-2.5f);
  wire.set_speculate("force");
  sampling->add_stop("END");
  const auto parsed = *Parse(wire);
  EXPECT_THAT(parsed.generation.prompt_ids, ElementsAre(3840, 5));
  EXPECT_EQ(parsed.generation.max_new_tokens, 9);
  EXPECT_EQ(parsed.generation.sampling.choice, 4u);
  EXPECT_THAT(parsed.generation.sampling.logit_bias,
              ElementsAre(::testing::Pair(17, -2.5f)));
  EXPECT_EQ(parsed.generation.speculation, SpeculationMode::kForce);
  EXPECT_TRUE(parsed.generation.ignore_eos);
  EXPECT_TRUE(parsed.generation.want_logprobs);
  EXPECT_EQ(parsed.generation.top_logprobs, 3);
  const SamplingOptions& got = parsed.generation.sampling;
  EXPECT_EQ(got.temperature, 0.5f);
  EXPECT_EQ(got.top_p, 0.25f);
  EXPECT_EQ(got.top_k, 40);
  EXPECT_EQ(got.min_p, 0.125f);
  EXPECT_EQ(got.seed, 1234u);
  EXPECT_EQ(got.presence_penalty, 1);
  EXPECT_EQ(got.frequency_penalty, 2);
  EXPECT_EQ(got.repetition_penalty, 3);
  EXPECT_THAT(parsed.text.stop, ElementsAre("END"));
}

TEST(GenerateRequestTest, RendersChats) {
  v1::GenerateRequest wire = ChatRequestOf("user");
  wire.mutable_chat()->set_thinking("off");
  wire.mutable_chat()->set_tool_choice("none");
  wire.mutable_chat()->mutable_messages(0)->add_content_parts("more");
  const auto parsed = *Parse(wire);
  ChatRequest chat;
  chat.messages.resize(1);
  chat.messages[0].content = {"Hi", "more"};
  chat.thinking = Thinking::kOff;
  chat.tool_choice = ToolChoice::kNone;
  EXPECT_EQ(parsed.generation.prompt_ids, *EncodeChat(NanoTokenizer(), chat));
  EXPECT_EQ(parsed.text.chat, OutputChannel::kResponse);
  EXPECT_EQ(Parse(ChatRequestOf("user"))->text.chat, OutputChannel::kThink);
}

TEST(GenerateRequestTest, HoldsChatsToTheirFormat) {
  v1::GenerateRequest wire = ChatRequestOf("user");
  EXPECT_EQ(Parse(wire)->generation.constraint, nullptr);
  wire.mutable_chat()->set_response_format("json_schema");
  wire.mutable_chat()->set_response_schema_json(R"({"type":"null"})");
  EXPECT_NE(Parse(wire)->generation.constraint, nullptr);
  EXPECT_NE(Parse(wire)->generation.constraint,
            Parse(wire)->generation.constraint);
  wire.set_ignore_eos(true);
  ExpectRefused(wire, "ignore_eos");
  wire.set_ignore_eos(false);
  wire.mutable_chat()->set_response_schema_json(R"({"items":{"not":{}}})");
  ExpectRefused(wire, "chat.response_schema_json.items.not");
  wire = ChatRequestOf("user");
  wire.mutable_chat()->set_tools_json(R"([{"function":{"name":"w"}}])");
  wire.mutable_chat()->set_tool_name("w");
  ExpectRefused(wire, "chat.tool_name");
  wire.mutable_chat()->set_tool_choice("required");
  EXPECT_NE(Parse(wire)->generation.constraint, nullptr);
  wire.mutable_chat()->set_tool_name("v");
  ExpectRefused(wire, "chat.tool_name");
}

TEST(GenerateRequestTest, TellsWhatOtherChatsShare) {
  v1::GenerateRequest wire = ChatRequestOf("system");
  v1::ChatMessage* message = wire.mutable_chat()->add_messages();
  message->set_role("user");
  message->set_content("Who is there?");
  const auto first = *Parse(wire);
  message->set_content("Hello");
  const auto second = *Parse(wire);
  const int64_t shared = first.generation.shared_prefix_tokens;
  EXPECT_EQ(second.generation.shared_prefix_tokens, shared);
  const std::vector<int32_t>& a = first.generation.prompt_ids;
  const std::vector<int32_t>& b = second.generation.prompt_ids;
  ASSERT_LT(shared, std::ssize(a));
  ASSERT_LT(shared, std::ssize(b));
  EXPECT_TRUE(std::equal(a.begin(), a.begin() + shared, b.begin()));
  // The instructions are in it, the user's words are not.
  const std::string head = *NanoTokenizer().Decode(
      std::vector<int32_t>(a.begin(), a.begin() + shared));
  EXPECT_THAT(head, HasSubstr("Hi"));
  EXPECT_THAT(head, ::testing::Not(HasSubstr("Who")));
  EXPECT_EQ(Parse(TextRequest())->generation.shared_prefix_tokens, 0);
}

TEST(GenerateRequestTest, NamesTheFieldThatIsWrong) {
  ExpectRefused(v1::GenerateRequest(), "prompt");
  v1::GenerateRequest wire = TextRequest();
  wire.set_max_new_tokens(1u << 31);
  ExpectRefused(wire, "max_new_tokens");
  wire = TextRequest();
  wire.set_logprobs(21);
  ExpectRefused(wire, "logprobs");
  wire = TextRequest();
  wire.mutable_sampling()->set_top_k(1u << 31);
  ExpectRefused(wire, "sampling.top_k");
  wire = TextRequest();
  wire.mutable_sampling()->add_logit_bias()->set_id(1u << 31);
  ExpectRefused(wire, "sampling.logit_bias[0].id");
  wire = TextRequest();
  wire.set_prompt_only(true);
  EXPECT_EQ(Parse(wire)->generation.max_new_tokens, 0);
  wire.set_max_new_tokens(1);
  ExpectRefused(wire, "prompt_only");
  wire = TextRequest();
  wire.set_speculate("on");
  ExpectRefused(wire, "speculate");
  wire.mutable_ids()->add_ids(1);
  wire.mutable_ids()->add_ids(1u << 31);
  ExpectRefused(wire, "ids.ids[1]");
}

TEST(GenerateRequestTest, NamesTheChatFieldThatIsWrong) {
  ExpectRefused(ChatRequestOf("robot"), "chat.messages[0]: role");
  v1::GenerateRequest wire;
  wire.mutable_chat();
  ExpectRefused(wire, "chat.messages");
  wire = ChatRequestOf("user");
  wire.set_add_bos(true);
  ExpectRefused(wire, "add_bos");
  wire = ChatRequestOf("user");
  wire.mutable_chat()->set_thinking("medium");
  ExpectRefused(wire, "chat.thinking");
  wire = ChatRequestOf("user");
  wire.mutable_chat()->set_tool_choice("some");
  ExpectRefused(wire, "chat.tool_choice");
  wire = ChatRequestOf("user");
  wire.mutable_chat()->set_response_format("xml");
  ExpectRefused(wire, "chat.response_format");
  wire.mutable_chat()->set_response_format("");
  wire.mutable_chat()->set_response_schema_json("{}");
  ExpectRefused(wire, "chat.response_schema_json");
  wire = ChatRequestOf("user");
  wire.mutable_chat()->set_tools_json("[");
  ExpectRefused(wire, "tools");
}

}  // namespace
}  // namespace deltafin
