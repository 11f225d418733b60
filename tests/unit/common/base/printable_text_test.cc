#include "common/base/printable_text.h"

#include <gtest/gtest.h>

namespace deltafin {
namespace {

using namespace std::string_literals;

TEST(PrintableTextTest, ControlCharactersBecomeQuestionMarks) {
  EXPECT_EQ(OneLine("a\x1b[2Jb\r\n\tc\x7f\0d"s), "a?[2Jb???c??d");
  EXPECT_EQ(OneLine(""), "");
}

TEST(PrintableTextTest, SoDoThoseAboveAscii) {
  EXPECT_EQ(OneLine("a\xc2\x9b[2J\xc2\x80\xc2\x9f"), "a?[2J??");
}

TEST(PrintableTextTest, OtherTextStays) {
  const std::string text = " ~\xc2\xa0\xc3\xa9\xe4\xb8\xad\xf0\x9f\x99\x82";
  EXPECT_EQ(OneLine(text), text);
  EXPECT_EQ(OneLine("cut \xc2 \xc2"), "cut \xc2 \xc2");
}

TEST(PrintableTextTest, LinesKeepTheirEnds) {
  EXPECT_EQ(PrintableLines("a\nb\r\n\x1b"), "a\nb?\n?");
}

}  // namespace
}  // namespace deltafin
