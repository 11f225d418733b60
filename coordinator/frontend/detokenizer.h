// coordinator/frontend/detokenizer.h
//
// Token ids to text as they come: whole characters only. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "coordinator/frontend/vocabulary.h"

namespace deltafin {

// The texts returned, joined, are Python's bytes.decode("utf-8", "replace") of
// all the tokens' bytes, however these are cut into tokens.
class Detokenizer {
 public:
  // `vocabulary` must outlive this.
  explicit Detokenizer(const Vocabulary& vocabulary)
      : vocabulary_(vocabulary) {}

  // The characters that `id` completes; those it begins are held back.
  // REQUIRES: 0 <= id < vocabulary.size().
  std::string Add(int32_t id);

  // Ends the text: U+FFFD if a character is incomplete, else nothing.
  std::string Flush();

 private:
  const Vocabulary& vocabulary_;
  std::string pending_;  // an incomplete character
};

}  // namespace deltafin
