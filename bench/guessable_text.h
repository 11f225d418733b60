// bench/guessable_text.h
//
// A text in which guesses are right as often as one likes. Thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace deltafin::bench {

class GuessableText {
 public:
  static constexpr int kVocabSize = 512;

  // Where there is a guess of SuffixDrafter, it is right with this probability;
  // elsewhere the text repeats what stood some tokens before.
  explicit GuessableText(double right) : right_(right) {}

  // Depends on the ids alone.
  int32_t Next(std::span<const int32_t> ids) const;
  // A beginning; different ones for different seeds.
  static std::vector<int32_t> Begin(int num_tokens, int seed);

 private:
  const double right_;
};

}  // namespace deltafin::bench
