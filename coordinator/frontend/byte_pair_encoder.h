// coordinator/frontend/byte_pair_encoder.h
//
// Byte-pair encoding of one piece of text (docs/model.md 8.2). Not thread-safe:
// it keeps scratch memory; make one per call or thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "coordinator/frontend/vocabulary.h"

namespace deltafin {

class BytePairEncoder {
 public:
  // `vocabulary` must outlive this.
  explicit BytePairEncoder(const Vocabulary& vocabulary)
      : vocabulary_(vocabulary) {}

  // Appends the piece's ids. Takes n log n time for n bytes.
  // REQUIRES: `piece` is not empty.
  void Encode(std::string_view piece, std::vector<int32_t>& ids);

 private:
  // A token so far; lives at the index of its first byte.
  struct Part {
    uint32_t end;
    uint32_t previous;  // index of the part before; unused at index 0
    bool alive;
  };
  // Two neighbours that would make a token when they were looked at.
  struct Merge {
    int32_t rank;
    uint32_t begin;
    uint32_t middle;
    uint32_t end;
  };

  void Offer(std::string_view piece, uint32_t begin);
  bool IsCurrent(const Merge& merge) const;
  void Apply(std::string_view piece, const Merge& merge);

  const Vocabulary& vocabulary_;
  std::vector<Part> parts_;
  std::vector<Merge> queue_;  // heap: lowest rank first, leftmost on ties
};

}  // namespace deltafin
