#include "coordinator/frontend/json_schema_grammar.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/coordinator/frontend/grammar_fixture.h"
#include "tests/unit/coordinator/frontend/schema_validator.h"

namespace deltafin {
namespace {

struct Case {
  std::string schema;
  std::vector<std::string> valid;
  std::vector<std::string> invalid;
};

const std::vector<Case>& Cases() {
  static const auto* const cases = new std::vector<Case>{
      {"true",
       {"0", "-1.5e3", "\"\"", "[]", "{}", R"({"a":[1,{"b":null}],"c":true})",
        "[ 1 , 2\n]", R"("\u00e9\ud83d\ude00\n")", "\"\xC3\xA9\"", "1e-9"},
       {"01", "+1", ".5", "1.", "tru", "[1,]", "{,}", R"({"a"})", "\"\t\"",
        R"("\ud83d")", R"("\ude00")", "\"\xFF\"", "\"\xC0\x80\"", " 1", "1 2",
        "\"\xED\xA0\x80\"", "1e999", "nul"}},
      {R"({"type":"object"})",
       {"{}", R"({ "x" : 1 })"},
       {"[]", "1", "null", R"({"x":1,})"}},
      {R"({"type":"object","properties":{"a":{"type":"integer"},)"
       R"("b":{"type":"string"}},"required":["a"],)"
       R"("additionalProperties":false})",
       {R"({"a":1})", R"({"a":-20,"b":"x"})", "{\n  \"a\": 1\n}"},
       {"{}", R"({"b":"x"})", R"({"b":"x","a":1})", R"({"a":1.5})",
        R"({"a":1,})", R"({"a":1,"c":2})", R"({"a":01})", R"({"a":1,"a":1})",
        R"({"\u0061":1})"}},
      {R"({"type":"object","properties":{"ab":{"const":1},"ac":{"const":2}},)"
       R"("additionalProperties":{"const":3}})",
       {"{}", R"({"ab":1})", R"({"ab":1,"x":3})", R"({"a":3})", R"({"abc":3})",
        R"({"ac":2,"\"":3,"é":3})", R"({"":3})"},
       {R"({"ab":3})", R"({"ac":3})", R"({"x":1})", R"({"\u0061b":3})",
        R"({"x":3,"ab":1})"}},
      {R"({"type":"object","required":["k"],"additionalProperties":)"
       R"({"type":"null"}})",
       {R"({"k":null})", R"({"k":null,"l":null})"},
       {"{}", R"({"l":null})"}},
      {R"({"type":["string","null"],"maxLength":2})",
       {"null", "\"\"", "\"ab\"", "\"\xF0\x9F\x98\x80\xC3\xA9\"",
        R"("\u0041\n")"},
       {"\"abc\"", "1", R"("\u0041\u0041\u0041")"}},
      {R"({"type":"string","minLength":2})",
       {"\"ab\"", "\"abcdefgh\""},
       {"\"a\"", "\"\""}},
      {R"({"type":"array","items":{"type":"boolean"},"minItems":1,)"
       R"("maxItems":3})",
       {"[true]", "[true,false , true]"},
       {"[]", "[1]", "[true,true,true,true]"}},
      {R"({"type":"array","prefixItems":[{"const":1},{"const":"x"}],)"
       R"("items":false})",
       {"[]", "[1]", "[1,\"x\"]"},
       {"[\"x\"]", "[1,\"x\",1]"}},
      {R"({"type":"array","prefixItems":[{"const":1}],"items":{"const":2},)"
       R"("minItems":2})",
       {"[1,2]", "[1,2,2,2,2]"},
       {"[1]", "[2,2]", "[1,1]"}},
      {R"({"type":"array","items":{"const":0},"minItems":3})",
       {"[0,0,0]", "[0,0,0,0,0]"},
       {"[]", "[0]", "[0,0]"}},
      {R"({"enum":["red","rot",1,null,{"a":[1,"b"]}]})",
       {"\"red\"", "\"rot\"", "1", "null", R"({"a":[1,"b"]})",
        R"({ "a": [1, "b"] })"},
       {"\"r\"", "\"ro\"", "2", "10", "{}", R"({"a":[1]})"}},
      {R"({"type":"string","enum":["a",1]})", {"\"a\""}, {"1"}},
      {R"({"const":"\"q\"\n"})", {R"("\"q\"\n")"}, {R"("q")"}},
      {R"({"type":"integer","minimum":5,"maximum":120})",
       {"5", "9", "10", "99", "100", "119", "120"},
       {"4", "0", "121", "1000", "-5", "05", "5.0", "1e2"}},
      {R"({"type":"integer","minimum":-12,"exclusiveMaximum":3})",
       {"-12", "-9", "-1", "0", "2"},
       {"-13", "-20", "3", "-0", "12"}},
      {R"({"type":"integer","exclusiveMinimum":-1})",
       {"0", "7", "123456789012345678"},
       {"-1", "-7", "1234567890123456789"}},
      {R"({"type":"number","minimum":0,"maximum":1})",
       {"0", "1", "0.5", "1.0", "0.000001", "1.00"},
       {"-0.1", "1.01", "2", "1.000001", "1e0"}},
      {R"({"type":"number","exclusiveMinimum":0,"exclusiveMaximum":2.0})",
       {"0.1", "1", "1.999", "0.010"},
       {"0", "0.0", "2", "2.0", "-1"}},
      {R"({"type":"number","maximum":-3})",
       {"-3", "-3.0", "-3.5", "-40"},
       {"-2.9", "3", "0"}},
      {R"({"anyOf":[{"type":"integer"},{"type":"object","properties":)"
       R"({"t":{"const":"a"}},"required":["t"]},{"type":"object",)"
       R"("properties":{"t":{"const":"b"},"n":{"type":"integer"}},)"
       R"("required":["t","n"]}]})",
       {"3", R"({"t":"a"})", R"({"t":"b","n":1})", R"({"t":"a","n":"x"})"},
       {"\"a\"", R"({"t":"b"})", R"({"t":"c"})", R"({"t":"b","n":"x"})"}},
      {R"({"oneOf":[{"const":1},{"const":2}]})", {"1", "2"}, {"3"}},
      {R"({"allOf":[{"$ref":"#/$defs/a"},{"type":"object","properties":)"
       R"({"y":{"type":"integer"}},"required":["y"]}],"$defs":{"a":)"
       R"({"type":"object","properties":{"x":{"type":"null"}},)"
       R"("required":["x"]}}})",
       {R"({"x":null,"y":1})", R"({"x":null,"y":1,"z":[]})"},
       {R"({"x":null})", R"({"y":1})"}},
      {R"({"allOf":[{"type":"null"}],"title":"t"})", {"null"}, {"1"}},
      {R"({"type":"object","properties":{"v":{"type":"integer"},"next":)"
       R"({"anyOf":[{"$ref":"#"},{"type":"null"}]}},"required":["v","next"],)"
       R"("additionalProperties":false})",
       {R"({"v":1,"next":null})", R"({"v":1,"next":{"v":2,"next":null}})"},
       {R"({"v":1})", R"({"v":1,"next":{"v":2}})"}},
      {R"({"$ref":"#/$defs/a~1b","$defs":{"a/b":{"type":"boolean"}}})",
       {"true"},
       {"1"}},
      {R"({"$schema":"s","title":"t","description":"d","default":1,)"
       R"("examples":[1],"type":"null"})",
       {"null"},
       {"1"}},
  };
  return *cases;
}

TEST(JsonSchemaGrammarTest, ReadsWhatASchemaAllowsAndNothingElse) {
  for (const Case& one : Cases()) {
    const GrammarPtr grammar = GrammarOf(one.schema);
    ASSERT_NE(grammar, nullptr);
    for (const std::string& text : one.valid) {
      EXPECT_EQ(Read(grammar, text), Reading::kComplete)
          << one.schema << " | " << text;
    }
    for (const std::string& text : one.invalid) {
      EXPECT_NE(Read(grammar, text), Reading::kComplete)
          << one.schema << " | " << text;
    }
  }
}

TEST(JsonSchemaGrammarTest, ReadsStringsOfAPattern) {
  const auto pattern = [](const std::string& text) {
    return R"({"type":"string","pattern":)" + QuoteJson(text) + "}";
  };
  const std::vector<Case> cases = {
      {pattern("^[A-Z]{2,3}-\\d+$"),
       {"\"AB-1\"", "\"ABC-123\""},
       {"\"A-1\"", "\"ABCD-1\"", "\"AB-\"", "\"xAB-1\"", "\"AB-1x\""}},
      {pattern("b"), {"\"b\"", "\"abc\"", "\"\\nb\""}, {"\"\"", "\"ac\""}},
      {pattern("^a|b$"), {"\"ax\"", "\"xb\"", "\"ab\""}, {"\"xa\"", "\"bx\""}},
      {pattern("^(?:(ab?))*?$"), {"\"\"", "\"aba\""}, {"\"b\"", "\"abb\""}},
      {pattern("^[^a-c]$"),
       {"\"d\"", "\"\xC3\xA9\"", R"("\"")", "\"\xF0\x9F\x98\x80\"", R"("\n")"},
       {"\"a\"", "\"de\"", R"("\u0064")", "\"\xED\xA0\x80\"", "\"\xC3\""}},
      {pattern("^.\\.\\u00e9[\\w-]\\x41\\/$"),
       {"\"x.\xC3\xA9-A/\""},
       {"\"xx\xC3\xA9-A/\"", "\"x.\xC3\xA9+A/\""}},
      {pattern("^\\\\\"\\t$"), {R"("\\\"\t")"}, {"\"\\\""}},
      {R"({"format":"date","type":"string"})",
       {"\"2024-02-28\"", "\"1999-12-31\""},
       {"\"2024-02-30\"", "\"2024-13-01\"", "\"2024-04-31\"", "\"24-04-01\""}},
      {R"({"format":"date-time","type":"string"})",
       {"\"2024-02-28T23:59:59Z\"", "\"2024-02-28T00:00:00.5+02:00\""},
       {"\"2024-02-28T24:00:00Z\"", "\"2024-02-28 00:00:00Z\""}},
      {R"({"format":"uuid","type":"string"})",
       {"\"123e4567-e89b-12d3-a456-426614174000\""},
       {"\"123e4567e89b12d3a456426614174000\""}},
      {R"({"format":"ipv4","type":"string"})",
       {"\"127.0.0.1\"", "\"255.249.199.99\""},
       {"\"256.0.0.1\"", "\"1.2.3\"", "\"01.2.3.4\""}},
      {R"({"format":"email","type":"string"})",
       {"\"a.b@example.org\""},
       {"\"a@b\"", "\"@example.org\""}},
  };
  for (const Case& one : cases) {
    const GrammarPtr grammar = GrammarOf(one.schema);
    ASSERT_NE(grammar, nullptr);
    for (const std::string& text : one.valid) {
      EXPECT_EQ(Read(grammar, text), Reading::kComplete)
          << one.schema << " | " << text;
    }
    for (const std::string& text : one.invalid) {
      EXPECT_NE(Read(grammar, text), Reading::kComplete)
          << one.schema << " | " << text;
    }
  }
}

// The table's own texts agree with a validator that knows no grammar, but for
// those that are only spelled or ordered otherwise.
TEST(JsonSchemaGrammarTest, DrawsTextsThatSatisfyTheSchema) {
  for (const Case& one : Cases()) {
    const GrammarPtr grammar = GrammarOf(one.schema);
    ASSERT_NE(grammar, nullptr);
    const SchemaValidator validator(nlohmann::json::parse(one.schema));
    for (const std::string& text : one.valid) {
      EXPECT_TRUE(validator.Holds(nlohmann::json::parse(text))) << text;
    }
    for (uint32_t seed = 0; seed < 30; ++seed) {
      const std::string text = DrawText(grammar, seed);
      const auto value = nlohmann::json::parse(text, nullptr, false);
      ASSERT_FALSE(value.is_discarded()) << text;
      EXPECT_TRUE(validator.Holds(value)) << one.schema << " | " << text;
      std::string where;
      EXPECT_TRUE(ParseStrictJson(text, where).ok() ||
                  text.find("\":") != std::string::npos)
          << text;
    }
  }
}

TEST(JsonSchemaGrammarTest, LimitsBlanksAndDepth) {
  const GrammarPtr any = GrammarOf("true");
  const std::string blanks(kMaxJsonBlanks, ' ');
  EXPECT_EQ(Read(any, "[" + blanks + "1]"), Reading::kComplete);
  EXPECT_EQ(Read(any, "[" + blanks + " 1]"), Reading::kNo);
  const auto nested = [](int depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_EQ(Read(any, nested(kMaxGrammarDepth)), Reading::kComplete);
  EXPECT_EQ(Read(any, nested(kMaxGrammarDepth + 2)), Reading::kNo);
}

// What is read can always be ended, also at the last depth.
TEST(JsonSchemaGrammarTest, KeepsAWayOutOfARecursion) {
  const GrammarPtr list = GrammarOf(
      R"({"type":"object","properties":{"next":{"anyOf":[{"$ref":"#"},)"
      R"({"type":"array","items":{"type":"object"},"minItems":1}]}},)"
      R"("required":["next"],"additionalProperties":false})");
  std::string text;
  while (Read(list, text + R"({"next":)") != Reading::kNo) {
    text += R"({"next":)";
  }
  EXPECT_GT(text.size() / 8, kMaxGrammarDepth - 5);
  const size_t depth = text.size() / 8;
  EXPECT_EQ(Read(list, text + "[{}]" + std::string(depth, '}')),
            Reading::kComplete);
}

TEST(JsonSchemaGrammarTest, NamesTheKeywordThatItCannotEnforce) {
  const std::pair<const char*, const char*> cases[] = {
      {R"~({"type":"string","pattern":"(?=a)"})~", "pattern"},
      {R"({"pattern":"(a"})", "pattern"},
      {R"({"pattern":"a\\b"})", "pattern"},
      {R"({"pattern":"[b-a]"})", "pattern"},
      {R"~({"pattern":"(^a)"})~", "pattern"},
      {R"({"pattern":"a{2,1}"})", "pattern"},
      {R"({"pattern":"((a{1000}){1000}){1000}"})", ""},
      {R"({"pattern":"a","maxLength":3})", "pattern"},
      {R"({"type":"integer","format":"int32"})", "format"},
      {R"({"type":"object","properties":{"a":{"format":"uri"}}})",
       "properties.a.format"},
      {R"({"properties":{"a":{"items":{"multipleOf":2}}}})",
       "properties.a.items.multipleOf"},
      {R"({"anyOf":[true,{"not":{}}]})", "anyOf[1].not"},
      {R"({"$ref":"#/$defs/a","$defs":{"a":{"if":true}}})", "$defs.a.if"},
      {R"({"$ref":"#/$defs/b"})", "$ref"},
      {R"({"$ref":"http://127.0.0.1/x"})", "$ref"},
      {R"({"$ref":"#/$defs/a","minLength":1,"$defs":{"a":true}})", "minLength"},
      {R"({"anyOf":[true],"type":"string"})", "type"},
      {R"({"anyOf":[]})", "anyOf"},
      {R"({"type":"strin"})", "type"},
      {R"({"type":["string","string"]})", "type"},
      {R"({"type":[]})", "type"},
      {R"({"type":"integer","minimum":0.5})", "minimum"},
      {R"({"type":"integer","exclusiveMinimum":true})", "exclusiveMinimum"},
      {R"({"type":"string","minLength":-1})", "minLength"},
      {R"({"type":"string","maxLength":1e9})", "maxLength"},
      {R"({"type":"array","minItems":3,"maxItems":2})", "maxItems"},
      {R"({"type":"array","items":false,"minItems":1})", "minItems"},
      {R"({"type":"array","items":[true]})", "items"},
      {R"({"type":"object","required":[1]})", "required"},
      {R"({"type":"object","required":"a"})", "required"},
      {R"({"type":"object","properties":[]})", "properties"},
      {R"({"type":"object","required":["a"],"additionalProperties":false})",
       "required"},
      {R"({"type":"object","patternProperties":{}})", "patternProperties"},
      {R"({"type":"array","uniqueItems":true})", "uniqueItems"},
      {R"({"enum":[]})", "enum"},
      {R"({"enum":[1],"minimum":0})", "minimum"},
      {R"({"allOf":[{"type":"object"},{"type":"string"}]})", "allOf[1].type"},
      {R"({"allOf":[{"type":"object","properties":{"a":true}},)"
       R"({"type":"object","properties":{"a":true}}]})",
       "allOf[1].properties.a"},
      {R"({"additionalProperties":3})", "additionalProperties"},
      {R"([])", ""},
  };
  for (const auto& [schema, expected] : cases) {
    std::string where;
    const auto grammar = GrammarOfSchema(schema, where);
    EXPECT_TRUE(absl::IsInvalidArgument(grammar.status())) << schema;
    EXPECT_EQ(where, expected) << schema << ": " << grammar.status();
  }
}

TEST(JsonSchemaGrammarTest, RefusesASchemaThatNothingSatisfies) {
  for (const char* schema :
       {R"({"$ref":"#"})", R"({"anyOf":[{"$ref":"#"}]})", "false",
        R"({"type":"string","enum":[1]})",
        R"({"type":"integer","minimum":3,"maximum":2})",
        R"({"type":"object","properties":{"a":{"$ref":"#"}},)"
        R"("required":["a"]})",
        R"({"type":"array","items":{"$ref":"#"},"minItems":1})"}) {
    std::string where;
    const auto grammar = GrammarOfSchema(schema, where);
    EXPECT_TRUE(absl::IsInvalidArgument(grammar.status())) << schema;
  }
}

}  // namespace
}  // namespace deltafin
