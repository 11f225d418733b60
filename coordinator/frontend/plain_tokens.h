// coordinator/frontend/plain_tokens.h
//
// The tokens of a vocabulary that are plain characters and nothing else: most
// are. Inside of a string all of them are allowed, which needs no walk.
// Immutable; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "coordinator/frontend/token_trie.h"
#include "coordinator/frontend/vocabulary.h"

namespace deltafin {

class PlainTokens {
 public:
  explicit PlainTokens(const Vocabulary& vocabulary);

  // Characters of the longest one.
  size_t longest() const { return ends_.size() - 1; }

  // A bit for each token of the vocabulary, set for plain ones of at most as
  // many characters.
  std::vector<uint64_t> Mask(size_t max_characters) const;

  // The ordinary tokens that are not plain.
  const TokenTrie& others() const { return others_; }

 private:
  struct Sorted;
  PlainTokens(const Vocabulary& vocabulary, Sorted sorted);
  static Sorted Sort(const Vocabulary& vocabulary);

  std::vector<int32_t> ids_;    // by their characters
  std::vector<size_t> ends_;    // in ids_, of those of at most as many
  std::vector<uint64_t> mask_;  // of all
  TokenTrie others_;
};

}  // namespace deltafin
