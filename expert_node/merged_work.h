// expert_node/merged_work.h
//
// Parts of one layer that run together: their tokens, numbered through in the
// order of the parts. A view that owns nothing but the numbers.
// Thread-compatible.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "expert_node/layer_work.h"

namespace deltafin {

class MergedWork {
 public:
  // The parts must outlive this. REQUIRES: at least one; all of one layer.
  explicit MergedWork(std::span<const LayerWork* const> parts);
  // A part that runs alone.
  explicit MergedWork(const LayerWork& part);

  int layer() const { return tokens_.front().part->layer; }
  int num_tokens() const { return static_cast<int>(tokens_.size()); }
  int num_parts() const { return static_cast<int>(first_token_.size()) - 1; }
  // Number of a part's first token; of num_parts(), the number of tokens.
  int first_token(int part) const { return first_token_[part]; }

  std::span<const Assignment> assignments_of(int token) const {
    return tokens_[token].part->assignments_of(tokens_[token].index);
  }
  // [L]
  const float* latent_row(int token) const {
    const LayerWork& part = *tokens_[token].part;
    const size_t width = part.latent.size() / part.num_tokens;
    return part.latent.data() + width * tokens_[token].index;
  }

 private:
  struct Token {
    const LayerWork* part = nullptr;
    int index = 0;  // in the part
  };

  void Add(const LayerWork& part);

  std::vector<Token> tokens_;
  std::vector<int> first_token_;  // [parts + 1]
};

}  // namespace deltafin
