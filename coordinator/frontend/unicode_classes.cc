#include "coordinator/frontend/unicode_classes.h"

#include <cstddef>
#include <iterator>
#include <vector>

namespace deltafin {
namespace {

constexpr uint32_t kCodePoints = 0x110000;
// Runs of alternating upper and lower case, by their first letter: class 11
// begins with upper case, 12 with lower.
constexpr uint32_t kUpperFirst = 11;

// first code point << 4 | class; made by make_unicode_classes.mjs.
constexpr uint32_t kRuns[] = {
#include "coordinator/frontend/unicode_class_runs.inc"
};

// Class of the `index`-th character of a run.
CharClass ClassInRun(uint32_t run_class, uint32_t index) {
  if (run_class < kUpperFirst) return static_cast<CharClass>(run_class);
  const bool upper = (run_class == kUpperFirst) == (index % 2 == 0);
  return upper ? CharClass::kUpper : CharClass::kLower;
}

// One byte per code point, so that a look-up is one load: 1.1 MB.
std::vector<CharClass> ExpandRuns() {
  std::vector<CharClass> classes(kCodePoints);
  for (size_t r = 0; r < std::size(kRuns); ++r) {
    const uint32_t first = kRuns[r] >> 4;
    const uint32_t end =
        r + 1 < std::size(kRuns) ? kRuns[r + 1] >> 4 : kCodePoints;
    for (uint32_t c = first; c < end; ++c) {
      classes[c] = ClassInRun(kRuns[r] & 15, c - first);
    }
  }
  return classes;
}

}  // namespace

CharClass ClassOf(char32_t code_point) {
  static const std::vector<CharClass> classes = ExpandRuns();
  return classes[code_point];
}

bool IsPythonSpace(char32_t code_point) {
  if (code_point >= 0x1C && code_point <= 0x1F) return true;
  const CharClass kind = ClassOf(code_point);
  return kind == CharClass::kSpace || kind == CharClass::kNewline;
}

}  // namespace deltafin
