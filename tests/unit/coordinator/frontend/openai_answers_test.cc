// Answers have the fields that docs/http_answers.md says, no others, and all of
// them occur.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "spdlog/fmt/fmt.h"
#include "tests/unit/coordinator/frontend/answer_schema.h"
#include "tests/unit/coordinator/frontend/openai_service_fixture.h"

namespace deltafin {
namespace {

using ::testing::IsEmpty;

constexpr char kCalls[] =
    "<|close|>response<|sep|><|open|>tools<|sep|>"
    "<|open|>call tool=\"weather\" index=\"1\"<|sep|>"
    "<|open|>argument key=\"city\" type=\"string\"<|sep|>Oslo"
    "<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>"
    "<|close|>message<|sep|><|end_of_msg|>";
constexpr char kThought[] =
    "Hm.<|close|>think<|sep|><|open|>response<|sep|>Yes."
    "<|close|>response<|sep|><|close|>message<|sep|><|end_of_msg|>";
constexpr char kQuestion[] =
    R"({"model":"nano","messages":[{"role":"user","content":"Hi"}])";
constexpr char kInput[] = R"({"model":"nano","input":"Hi")";
constexpr char kOff[] = R"(,"reasoning_effort":"none")";
constexpr char kResponseOff[] = R"(,"reasoning":{"effort":"none"})";

class OpenAiAnswersTest : public OpenAiServiceTest {
 protected:
  // The answer to a body without its last bracket.
  Json Ask(const std::string& path, const std::string& body,
           const std::string& type) {
    const Json answer = Post(path, body + "}");
    EXPECT_EQ(schema_.Mismatch(answer, type), "") << answer.dump(1);
    return answer;
  }
  void Get(const std::string& path, const std::string& type) {
    const ReplyPtr reply = Begin("GET", path, "");
    EXPECT_EQ(schema_.Mismatch(Json::parse(reply->body()), type), "");
  }
  // Streams a body; each event is of `type`, or of the type that it names.
  void Stream(const std::string& path, const std::string& body,
              const std::string& type) {
    const ReplyPtr reply = Begin("POST", path, body + R"(,"stream":true})");
    reply->AwaitEnd();
    for (const std::string& data : Events(reply->body())) {
      if (data == "[DONE]") continue;
      const Json event = Json::parse(data);
      const std::string name = type.empty() ? event.value("type", "") : type;
      EXPECT_EQ(schema_.Mismatch(event, name), "") << event.dump(1);
    }
  }

  // Whole, streamed, and streamed as far as each token.
  void AskWhole(const std::string& path, const std::string& body) {
    Ask(path, body, "Response");
    Stream(path, body, "");
    for (size_t tokens = 1; tokens < script_.size(); ++tokens) {
      const std::string cut = fmt::format(R"(,"max_output_tokens":{})", tokens);
      Stream(path, body + cut, "");
    }
  }

  void AskChats();
  void AskCompletions();
  void AskResponses();
  void AskWithOptions(const std::string& responses);
  void AskTheRest();
  void AskWhatFails();

  AnswerSchema schema_{ReadAll(DELTAFIN_SOURCE_DIR "/docs/http_answers.md")};
};

void OpenAiAnswersTest::AskChats() {
  const std::string chats = "/v1/chat/completions";
  const std::string usage = R"(,"stream_options":{"include_usage":true})";
  const std::string off = std::string(kQuestion) + kOff;
  Answer(off, ControlIds(kCalls));
  Ask(chats, off, "ChatCompletion");
  Stream(chats, off, "ChatChunk");
  Stream(chats, off + usage, "ChatChunk");
  const std::string cut = off + R"(,"max_tokens":3)";
  Ask(chats, cut, "ChatCompletion");
  Stream(chats, cut, "ChatChunk");
  Answer(kQuestion, ControlIds(kThought));
  const std::string scored =
      std::string(kQuestion) + R"(,"logprobs":true,"top_logprobs":2)";
  Ask(chats, scored, "ChatCompletion");
  Stream(chats, scored, "ChatChunk");
  Ask(chats, kQuestion, "ChatCompletion");
}

void OpenAiAnswersTest::AskCompletions() {
  const std::string completions = "/v1/completions";
  const std::string body = R"({"model":"nano","prompt":"It was a dark")";
  const std::string usage = R"(,"stream_options":{"include_usage":true})";
  Ask(completions, body, "Completion");
  Ask(completions, body + R"(,"stop":["e","a","i","o"],"max_tokens":500)",
      "Completion");
  Ask(completions, body + R"(,"echo":true,"logprobs":2)", "Completion");
  Ask(completions, body + R"(,"logprobs":0)", "Completion");
  Stream(completions, body + usage, "Completion");
  Stream(completions, body, "Completion");
}

void OpenAiAnswersTest::AskResponses() {
  const std::string responses = "/v1/responses";
  const std::string chat_off = std::string(kQuestion) + kOff;
  const std::string off = std::string(kInput) + kResponseOff;
  Answer(chat_off, ControlIds(kCalls));
  AskWhole(responses, off);
  Answer(kQuestion, ControlIds(kThought));
  AskWhole(responses, kInput);
  AskWithOptions(responses);
  for (const char* effort : {"low", "high"}) {
    Ask(responses,
        std::string(kInput) +
            R"(,"max_output_tokens":2,"reasoning":{"effort":")" + effort +
            "\"}",
        "Response");
  }
}

void OpenAiAnswersTest::AskWithOptions(const std::string& responses) {
  const std::string tools =
      R"(,"tools":[{"type":"function","name":"f","description":"d",)"
      R"("parameters":{"type":"object"},"strict":false}],"tool_choice":)";
  for (const std::string& option :
       {R"(,"instructions":"Be brief.")" + tools + R"("none")",
        tools + R"("required")", tools + R"({"type":"function","name":"f"})",
        std::string(R"(,"text":{"format":{"type":"json_object"}})"),
        std::string(R"(,"text":{"format":{"type":"json_schema","name":"n",)"
                    R"("schema":{"type":"object"}}})")}) {
    Ask(responses, kInput + option + R"(,"max_output_tokens":2)", "Response");
  }
}

void OpenAiAnswersTest::AskTheRest() {
  Get("/v1/models", "ModelList");
  Get("/v1/models/nano", "Model");
  Get("/healthz", "Health");
  is_serving_ = false;
  Get("/healthz", "Health");
  Ask("/tokenize", R"({"prompt":"Hi")", "Tokens");
  Ask("/detokenize", R"({"tokens":[5])", "Text");
  const ReplyPtr stream =
      Begin("POST", "/v1/completions",
            Completion(R"(,"stream":true,"stream_options":{"resumable":60})"));
  stream->AwaitEnd();
  const ReplyPtr deleted = OpenAiServiceTest::Ask(
      "DELETE", "/v1/streams/" + stream->header("X-Stream-Id"), "");
  EXPECT_EQ(schema_.Mismatch(Json::parse(deleted->body()), "DeletedStream"),
            "");
}

void OpenAiAnswersTest::AskWhatFails() {
  Ask("/v1/completions", R"({"model":"nano","prompt":"a","n":0)", "Error");
  Ask("/v1/completions", R"({"model":"nano")", "Error");
  experts_.Hold();
  Ask("/v1/completions", R"({"model":"nano","prompt":"a","timeout":0.01)",
      "Error");
  Stream("/v1/responses", std::string(kInput) + R"(,"timeout":0.01)", "");
  Ask("/v1/completions", R"({"model":"nano","prompt":"a","n":100)", "Error");
  Get("/nowhere", "Error");
  experts_.Release();
}

TEST_F(OpenAiAnswersTest, AreAsTheyAreDocumented) {
  AskChats();
  AskCompletions();
  AskResponses();
  AskTheRest();
  AskWhatFails();
  EXPECT_THAT(schema_.Unseen(), IsEmpty());
}

TEST(AnswerSchemaTest, TellsWhatDoesNotFit) {
  AnswerSchema schema(
      "### `A`\n```json\n{\"a\": \"integer | B[]\", \"b?\": \"'x'\"}\n```\n"
      "### `B`\n```json\n{\"c\": \"number | null\"}\n```\n");
  EXPECT_EQ(schema.Mismatch({{"a", 1}}, "A"), "");
  EXPECT_EQ(schema.Mismatch({{"a", {{{"c", nullptr}}}}}, "A"), "");
  EXPECT_THAT(schema.Unseen(), ::testing::ElementsAre("A.b", "A.b='x'"));
  EXPECT_EQ(schema.Mismatch({{"a", 1}, {"b", "x"}}, "A"), "");
  EXPECT_THAT(schema.Unseen(), IsEmpty());
  EXPECT_EQ(schema.Mismatch(Json::object(), "A"), "A.a is missing");
  EXPECT_EQ(schema.Mismatch({{"a", 1}, {"x", 1}}, "A"), "A.x is unknown");
  EXPECT_NE(schema.Mismatch({{"a", 1.5}}, "A"), "");
  EXPECT_NE(schema.Mismatch({{"a", {{{"c", "1"}}}}}, "A"), "");
  EXPECT_NE(schema.Mismatch({{"a", 1}, {"b", "y"}}, "A"), "");
}

}  // namespace
}  // namespace deltafin
