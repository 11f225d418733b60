#include "coordinator/cli/flag_words.h"

#include <gtest/gtest.h>

namespace deltafin {
namespace {

using Words = std::vector<std::string>;

TEST(FlagWordsTest, CutsAtSpaces) {
  EXPECT_EQ(*SplitFlagWords("  --threads 2\t--json "),
            (Words{"--threads", "2", "--json"}));
  EXPECT_EQ(*SplitFlagWords(""), Words{});
}

TEST(FlagWordsTest, QuotesKeepSpaces) {
  EXPECT_EQ(*SplitFlagWords("--prompt 'It was' --stop \"a b\" x\\ y"),
            (Words{"--prompt", "It was", "--stop", "a b", "x y"}));
  EXPECT_EQ(*SplitFlagWords("'' a''b"), (Words{"", "ab"}));
}

TEST(FlagWordsTest, BackslashIsPlainInSingleQuotesOnly) {
  EXPECT_EQ(*SplitFlagWords(R"('a\b' "a\"b")"), (Words{R"(a\b)", "a\"b"}));
}

TEST(FlagWordsTest, OpenQuoteIsAnError) {
  EXPECT_FALSE(SplitFlagWords("--prompt 'It was").ok());
  EXPECT_FALSE(SplitFlagWords("a\\").ok());
}

}  // namespace
}  // namespace deltafin
