// coordinator/frontend/token_trie.h
//
// Ordinary tokens of a vocabulary as a tree of their bytes, so that one walk
// finds all of them that a grammar allows. Immutable; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "coordinator/frontend/vocabulary.h"

namespace deltafin {

class TokenTrie {
 public:
  // One byte below its parent, in the order of a walk into depth.
  struct Node {
    uint32_t next_beside = 0;  // the first node that is not below this one
    int32_t token = -1;        // that ends here; -1: none
    uint16_t depth = 0;        // bytes so far, at least 1
    uint8_t byte = 0;
  };

  // Of all ordinary tokens.
  explicit TokenTrie(const Vocabulary& vocabulary);
  // Of these alone, each once.
  TokenTrie(const Vocabulary& vocabulary, std::vector<int32_t> ids);

  std::span<const Node> nodes() const { return nodes_; }
  // The longest token's bytes.
  size_t depth() const { return depth_; }
  // Whether each byte is a token of it, so that every text can be spelled.
  bool has_all_bytes() const { return has_all_bytes_; }

 private:
  std::vector<Node> nodes_;
  size_t depth_ = 0;
  bool has_all_bytes_ = false;
};

}  // namespace deltafin
