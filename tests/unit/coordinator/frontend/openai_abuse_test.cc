// Every field of a request, with every value that somebody may send.

#include <string>
#include <vector>

#include "coordinator/frontend/json_text.h"
#include "coordinator/frontend/openai_conversation.h"
#include "coordinator/frontend/openai_shared_fields.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/frontend/openai_request_fixture.h"

namespace deltafin {
namespace {

using ::testing::StartsWith;

struct Abuse {
  const char* json;
  FieldType type;  // that it is of
};

const std::vector<Abuse>& Abuses() {
  static const auto& abuses = *new std::vector<Abuse>{
      {"-1", FieldType::kInteger},
      {"0", FieldType::kInteger},
      {"2147483648", FieldType::kInteger},
      {"9223372036854775807", FieldType::kInteger},
      {"9223372036854775808", FieldType::kNumber},
      {"-9223372036854775809", FieldType::kNumber},
      {"1e308", FieldType::kNumber},
      {"1e999", FieldType::kAny},
      {"1.5", FieldType::kNumber},
      {"NaN", FieldType::kAny},
      {"Infinity", FieldType::kAny},
      {"\"abuse\"", FieldType::kString},
      {"null", FieldType::kAny},
      {"true", FieldType::kBoolean},
      {"[1e308]", FieldType::kArray},
      {"[[]]", FieldType::kArray},
      {"{\"abuse\":1}", FieldType::kObject},
      {"\"\xff\"", FieldType::kAny},
  };
  return abuses;
}

bool IsOfType(const Abuse& abuse, FieldType wanted) {
  return abuse.type == wanted ||
         (abuse.type == FieldType::kInteger && wanted == FieldType::kNumber);
}

// What the table says of a value: whether it may be accepted at all.
bool MayBeAccepted(const OpenAiField& field, const Abuse& abuse) {
  const std::string json = abuse.json;
  if (json == "null") return field.null_means == NullMeans::kAbsent;
  if (abuse.type == FieldType::kAny || field.read == nullptr) return false;
  if (field.type == FieldType::kAny) return true;
  if (!IsOfType(abuse, field.type)) return false;
  if (field.type != FieldType::kInteger && field.type != FieldType::kNumber) {
    return true;
  }
  const double number = std::stod(json);
  return number >= field.least && number <= field.most;
}

using Members = std::vector<std::pair<std::string, std::string>>;

// The object with these members and the field, which replaces its own.
std::string BodyWith(const Members& members, std::string_view name,
                     const std::string& json) {
  JsonObject body;
  for (const auto& [key, value] : members) {
    if (key != name) body.Json(key, value);
  }
  return body.Json(name, json).text();
}

using Parse = absl::StatusOr<OpenAiRequest> (*)(std::string_view,
                                                const Tokenizer&,
                                                const OpenAiModel&);

void AbuseEveryField(Parse parse, const Members& members,
                     std::initializer_list<OpenAiFields> tables) {
  int num_fields = 0;
  for (const OpenAiFields& table : tables) {
    for (const OpenAiField& field : table) {
      ++num_fields;
      for (const Abuse& abuse : Abuses()) {
        const std::string body = BodyWith(members, field.name, abuse.json);
        const auto request = parse(body, NanoTokenizer(), NanoModel());
        SCOPED_TRACE(body);
        if (request.ok()) {
          EXPECT_TRUE(MayBeAccepted(field, abuse));
          continue;
        }
        EXPECT_THAT(ParamOf(request.status()),
                    StartsWith(std::string(field.name)));
        EXPECT_EQ(ToOpenAiError(request.status()).http_status,
                  field.name == "model" && abuse.type == FieldType::kString
                      ? 404
                      : 400);
      }
    }
  }
  EXPECT_GT(num_fields, 20);
}

const std::pair<std::string, std::string> kModel = {"model", "\"nano\""};

TEST(OpenAiAbuseTest, EveryChatFieldRefusesEveryAbuseByItsName) {
  AbuseEveryField(ParseChatCompletion,
                  {kModel, {"messages", R"([{"role":"user","content":"Hi"}])"}},
                  {SharedFields(), ConversationFields(), ChatFields()});
}

TEST(OpenAiAbuseTest, EveryCompletionFieldRefusesEveryAbuseByItsName) {
  AbuseEveryField(ParseCompletion, {kModel, {"prompt", "\"Hi\""}},
                  {SharedFields(), CompletionFields()});
}

TEST(OpenAiAbuseTest, EveryResponseFieldRefusesEveryAbuseByItsName) {
  AbuseEveryField(ParseResponseRequest, {kModel, {"input", "\"Hi\""}},
                  {ResponseFields(), ConversationFields(), SharedFields()});
}

TEST(OpenAiAbuseTest, AKeyThatComesTwiceIsNamed) {
  EXPECT_EQ(ParamOf(Chat(R"(,"n":1,"n":1)").status()), "n");
  EXPECT_EQ(ParamOf(Chat(R"(,"stream_options":{"a":{"b":1,"b":2}})").status()),
            "stream_options.a.b");
}

TEST(OpenAiAbuseTest, DeepNestingIsNamedAndHarmless) {
  const std::string deep(100000, '[');
  const absl::Status status = Chat(",\"stop\":" + deep).status();
  EXPECT_THAT(ParamOf(status), StartsWith("stop[0]"));
  EXPECT_LT(ParamOf(status).size(), 1100u);
}

TEST(OpenAiAbuseTest, BodiesThatAreNoObjectAreRefused) {
  for (const char* body : {"", "[]", "1", "{", "{}x", "\xff", "{\"a\":1,}"}) {
    const auto request =
        ParseChatCompletion(body, NanoTokenizer(), NanoModel());
    EXPECT_EQ(ToOpenAiError(request.status()).code, "invalid_json") << body;
  }
}

TEST(OpenAiAbuseTest, UnknownFieldsAreNamed) {
  const absl::Status status = Chat(R"(,"mirostat":2)").status();
  EXPECT_EQ(ParamOf(status), "mirostat");
  EXPECT_EQ(ToOpenAiError(status).code, "unknown_parameter");
}

}  // namespace
}  // namespace deltafin
