#include "bench/guessable_text.h"

#include "coordinator/engine/suffix_drafter.h"

namespace deltafin::bench {
namespace {

constexpr size_t kPeriod = 40;

uint64_t Mix(uint64_t a, uint64_t b) {
  uint64_t mixed = a * 0x9E3779B97F4A7C15u + b;
  mixed = (mixed ^ (mixed >> 31)) * 0xBF58476D1CE4E5B9u;
  return mixed ^ (mixed >> 29);
}

}  // namespace

int32_t GuessableText::Next(std::span<const int32_t> ids) const {
  const uint64_t chance = Mix(ids.size(), ids.front());
  const Draft draft = SuffixDrafter().Find(ids, 1);
  if (draft.ids.empty()) {
    return ids.size() < kPeriod ? static_cast<int32_t>(chance % kVocabSize)
                                : ids[ids.size() - kPeriod];
  }
  const int32_t guess = draft.ids[0];
  if (static_cast<double>(chance >> 11) * 0x1p-53 < right_) return guess;
  return static_cast<int32_t>((guess + 1 + Mix(chance, 1) % (kVocabSize - 1)) %
                              kVocabSize);
}

std::vector<int32_t> GuessableText::Begin(int num_tokens, int seed) {
  std::vector<int32_t> ids;
  for (int i = 0; i < num_tokens; ++i) {
    const uint64_t at = static_cast<uint64_t>(i) % kPeriod;
    ids.push_back(static_cast<int32_t>(Mix(seed + 1, at) % kVocabSize));
  }
  return ids;
}

}  // namespace deltafin::bench
