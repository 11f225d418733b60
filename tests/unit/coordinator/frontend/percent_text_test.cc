#include "coordinator/frontend/percent_text.h"

#include "gtest/gtest.h"

namespace deltafin {
namespace {

TEST(PercentTextTest, DecodesPairsOfDigitsAndNothingElse) {
  EXPECT_EQ(PercentDecoded("a%20b%2Fc%c3%A9"), "a b/c\xC3\xA9");
  EXPECT_EQ(PercentDecoded("%"), "%");
  EXPECT_EQ(PercentDecoded("%4"), "%4");
  EXPECT_EQ(PercentDecoded("%4g%-1%%41"), "%4g%-1%A");
  EXPECT_EQ(PercentDecoded("%2541"), "%41");  // once
  EXPECT_EQ(PercentDecoded("%00"), std::string(1, '\0'));
  EXPECT_EQ(PercentDecoded("a+b"), "a+b");
  EXPECT_EQ(PercentDecoded(""), "");
}

}  // namespace
}  // namespace deltafin
