#include "coordinator/frontend/stop_matcher.h"

#include <algorithm>
#include <random>

#include "gtest/gtest.h"

namespace deltafin {
namespace {

std::string Filter(std::vector<std::string> stops,
                   const std::vector<std::string>& pieces) {
  StopMatcher matcher = *StopMatcher::Create(std::move(stops));
  std::string out;
  for (const std::string& piece : pieces) out += matcher.Add(piece);
  return out + matcher.Flush();
}

TEST(StopMatcherTest, EndsTextBeforeTheStopString) {
  EXPECT_EQ(Filter({"END"}, {"some text END more"}), "some text ");
  EXPECT_EQ(Filter({"END"}, {"some text E", "N", "D more"}), "some text ");
}

TEST(StopMatcherTest, HoldsBackOnlyWhatMayBeginAStopString) {
  StopMatcher matcher = *StopMatcher::Create({"abc"});
  EXPECT_EQ(matcher.Add("xab"), "x");
  EXPECT_EQ(matcher.Add("ab"), "ab");
  EXPECT_EQ(matcher.Add("d"), "abd");
  EXPECT_FALSE(matcher.matched());
}

TEST(StopMatcherTest, FlushReturnsWhatWasHeldBack) {
  EXPECT_EQ(Filter({"abc"}, {"xab"}), "xab");
}

TEST(StopMatcherTest, TheFirstToBeCompleteWinsAndThenTheLongest) {
  EXPECT_EQ(Filter({"abcd", "bc"}, {"xabcd"}), "xa");
  EXPECT_EQ(Filter({"c", "abc"}, {"xabc"}), "x");
}

TEST(StopMatcherTest, NothingComesAfterAMatch) {
  StopMatcher matcher = *StopMatcher::Create({"b"});
  EXPECT_EQ(matcher.Add("abc"), "a");
  EXPECT_TRUE(matcher.matched());
  EXPECT_EQ(matcher.Add("def"), "");
  EXPECT_EQ(matcher.Flush(), "");
}

TEST(StopMatcherTest, RefusesWhatCannotBeAStopString) {
  EXPECT_FALSE(StopMatcher::Create({""}).ok());
  EXPECT_FALSE(StopMatcher::Create({"\xFF"}).ok());
  EXPECT_FALSE(StopMatcher::Create({std::string(4097, 'a')}).ok());
  EXPECT_FALSE(StopMatcher::Create(std::vector<std::string>(17, "a")).ok());
}

// The text before the stop string that is complete first, found naively.
std::string Expected(const std::vector<std::string>& stops,
                     const std::string& text) {
  for (size_t end = 0; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& stop : stops) {
      if (text.substr(0, end).ends_with(stop)) {
        longest = std::max(longest, stop.size());
      }
    }
    if (longest > 0) return text.substr(0, end - longest);
  }
  return text;
}

TEST(StopMatcherTest, CutsOfTheTextCannotShow) {
  std::mt19937 random(7);
  const auto letters = [&](size_t most) {
    std::string text;
    for (size_t n = 1 + random() % most; n > 0; --n) text += "ab"[random() % 2];
    return text;
  };
  for (int round = 0; round < 2000; ++round) {
    const std::vector<std::string> stops = {letters(6), letters(6), letters(4)};
    const std::string text = letters(30);
    std::vector<std::string> pieces;
    for (size_t at = 0; at < text.size();) {
      const size_t n = random() % 4;
      pieces.push_back(text.substr(at, n));
      at += pieces.back().size();
    }
    EXPECT_EQ(Filter(stops, pieces), Expected(stops, text)) << text;
  }
}

}  // namespace
}  // namespace deltafin
