#include "coordinator/frontend/python_json.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/frontend/text_fixtures.h"

namespace deltafin {
namespace {

std::string Spaced(std::string_view text) { return DumpJson(*ParseJson(text)); }

TEST(PythonJsonTest, ReadsAndWritesAsPythonDoes) {
  for (const auto& item : ReferenceCases("json", 4000)) {
    const auto value = ParseJson(item["text"].get<std::string>());
    if (item.contains("spaced")) {
      ASSERT_TRUE(value.ok()) << item << value.status();
      EXPECT_EQ(DumpJson(*value), item["spaced"].get<std::string>()) << item;
      EXPECT_EQ(DumpCompactSortedJson(*value),
                item["sorted"].get<std::string>());
    } else {
      EXPECT_EQ(value.status().code(), item.contains("lone_surrogate")
                                           ? absl::StatusCode::kOutOfRange
                                           : absl::StatusCode::kInvalidArgument)
          << item;
    }
  }
}

TEST(PythonJsonTest, SpellsNumbersAsRepr) {
  EXPECT_EQ(Spaced("[1E2, 1e16, 1e15, 0.0001, 0.00001, -0.0, -0, 1e999]"),
            "[100.0, 1e+16, 1000000000000000.0, 0.0001, 1e-05, -0.0, 0, "
            "Infinity]");
  EXPECT_EQ(Spaced("123456789012345678901234567890"),
            "123456789012345678901234567890");
}

TEST(PythonJsonTest, TheLastOfEqualKeysWinsInTheFirstOnesPlace) {
  EXPECT_EQ(Spaced(R"({"a":1,"b":2,"a":3})"), R"({"a": 3, "b": 2})");
}

TEST(PythonJsonTest, SortsKeysByCodePoint) {
  EXPECT_EQ(DumpCompactSortedJson(*ParseJson(
                R"({"\ud83d\ude00":1,"\uffee":2,"b":{"z":1,"y":2}})")),
            "{\"b\":{\"y\":2,\"z\":1},\"\uFFEE\":2,\"\U0001F600\":1}");
}

TEST(PythonJsonTest, RefusesNestingThatCouldOverflowTheStack) {
  const std::string deep(100000, '[');
  EXPECT_EQ(ParseJson(deep).status().code(), absl::StatusCode::kOutOfRange);
}

TEST(PythonJsonTest, RefusesIntegersThatPythonRefuses) {
  EXPECT_TRUE(ParseJson(std::string(4300, '1')).ok());
  EXPECT_FALSE(ParseJson(std::string(4301, '1')).ok());
}

}  // namespace
}  // namespace deltafin
