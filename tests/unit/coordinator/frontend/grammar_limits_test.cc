// Grammars that are hostile.

#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <string>

#include "coordinator/frontend/grammar_constraint.h"
#include "coordinator/frontend/message_grammar.h"
#include "spdlog/fmt/fmt.h"
#include "tests/unit/coordinator/frontend/text_fixtures.h"

namespace deltafin {
namespace {

absl::StatusOr<std::shared_ptr<const ByteGrammar>> GrammarOf(
    const std::string& schema) {
  ChatRequest chat;
  chat.thinking = Thinking::kOff;
  chat.response_format = ResponseFormat::kJsonSchema;
  chat.response_schema_json = schema;
  std::string where;
  return MakeMessageGrammar(chat, {"schema", "tools", "parameters", "choice"},
                            where);
}

// Of this thread alone.
double CpuMicros() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 +
         static_cast<double>(now.tv_nsec) / 1e3;
}

// Schemas that are small and could be large: within bounds, or refused.
TEST(GrammarLimitsTest, BoundsHostileSchemas) {
  std::string defs;
  for (int i = 0; i < 60; ++i) {
    const std::string next = fmt::format("#/$defs/d{}", i + 1);
    defs += fmt::format(
        R"({}"d{}":{{"anyOf":[{{"type":"array","items":{{"$ref":"{}"}}}},)"
        R"({{"type":"array","items":{{"$ref":"{}"}}}}]}})",
        i == 0 ? "" : ",", i, next, next);
  }
  defs += R"(,"d60":true)";
  const std::string ambiguous =
      fmt::format(R"({{"$ref":"#/$defs/d0","$defs":{{{}}}}})", defs);
  const auto grammar = GrammarOf(ambiguous);
  ASSERT_TRUE(grammar.ok()) << grammar.status();
  const auto constraint = *GrammarConstraint::Create(*grammar, NanoTokenizer());
  for (int i = 0; i < 30; ++i) {
    const int32_t id = *NanoTokenizer().vocabulary().FindRank("[");
    const auto mask = constraint->Allowed();
    if (absl::IsResourceExhausted(mask.status())) break;
    ASSERT_TRUE(mask.ok()) << mask.status();
    ASSERT_NE((*mask)[id / 64] >> (id % 64) & 1, 0);
    constraint->Accept(id);
  }
  std::string counted = "true";
  for (int i = 0; i < 6; ++i) {
    counted = fmt::format(
        R"({{"type":"array","items":{},"minItems":10000,"maxItems":10000}})",
        counted);
  }
  EXPECT_TRUE(absl::IsInvalidArgument(GrammarOf(counted).status()));
  std::string deep;
  for (int i = 0; i < 10'000; ++i) deep += "{\"items\":";
  EXPECT_TRUE(absl::IsInvalidArgument(GrammarOf(deep).status()));
}

TEST(GrammarLimitsTest, TakesASchemaOfThousandsOfProperties) {
  std::string objects;
  for (int i = 0; i < 40; ++i) {
    std::string members;
    for (int j = 0; j < 100; ++j) {
      members += fmt::format(R"({}"member_{}":{{"type":"number"}})",
                             j == 0 ? "" : ",", j);
    }
    objects += fmt::format(R"({}"object_{}":{{"type":"object","properties":)"
                           R"({{{}}}}})",
                           i == 0 ? "" : ",", i, members);
  }
  const auto grammar = GrammarOf(
      fmt::format(R"({{"type":"object","properties":{{{}}}}})", objects));
  EXPECT_TRUE(grammar.ok()) << grammar.status();
}

// A step that would take too long ends the request, and no other.
TEST(GrammarLimitsTest, BoundsTheWorkOfAStep) {
  std::string branches;
  for (int i = 0; i < 500; ++i) {
    branches += fmt::format(R"({}{{"type":"string","minLength":{}}})",
                            i == 0 ? "" : ",", i + 1);
  }
  const std::string schemas[] = {
      R"~({"type":"string","pattern":"^((.{0,100}){0,3}){0,3}$"})~",
      R"~({"type":"string","pattern":"(a|b|ab|.)*.{300}(c|.)*$"})~",
      fmt::format(R"({{"anyOf":[{}]}})", branches)};
  for (const std::string& schema : schemas) {
    const auto grammar = GrammarOf(schema);
    ASSERT_TRUE(grammar.ok()) << grammar.status();
    const auto constraint =
        *GrammarConstraint::Create(*grammar, NanoTokenizer());
    constraint->Accept(*NanoTokenizer().vocabulary().FindRank("\""));
    double most = 0;
    int steps = 0;
    for (; steps < 20; ++steps) {
      const double since = CpuMicros();
      const auto mask = constraint->Allowed();
      most = std::max(most, CpuMicros() - since);
      if (absl::IsResourceExhausted(mask.status())) break;
      ASSERT_TRUE(mask.ok()) << mask.status();
      constraint->Accept(*NanoTokenizer().vocabulary().FindRank("a"));
    }
    fmt::print("{} steps, {:.0f} us at most\n", steps, most);
  }
}

}  // namespace
}  // namespace deltafin
