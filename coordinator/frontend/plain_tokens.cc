#include "coordinator/frontend/plain_tokens.h"

#include <algorithm>
#include <utility>

#include "coordinator/frontend/plain_characters.h"

namespace deltafin {

struct PlainTokens::Sorted {
  std::vector<std::vector<int32_t>> plain;  // by their characters
  std::vector<int32_t> others;
};

PlainTokens::Sorted PlainTokens::Sort(const Vocabulary& vocabulary) {
  Sorted sorted;
  sorted.plain.resize(1);
  for (int32_t id = 0; id < vocabulary.base(); ++id) {
    const auto count = CountPlainCharacters(vocabulary.Bytes(id));
    if (!count) {
      sorted.others.push_back(id);
      continue;
    }
    if (sorted.plain.size() <= *count) sorted.plain.resize(*count + 1);
    sorted.plain[*count].push_back(id);
  }
  return sorted;
}

PlainTokens::PlainTokens(const Vocabulary& vocabulary)
    : PlainTokens(vocabulary, Sort(vocabulary)) {}

PlainTokens::PlainTokens(const Vocabulary& vocabulary, Sorted sorted)
    : mask_((vocabulary.size() + 63) / 64),
      others_(vocabulary, std::move(sorted.others)) {
  for (const std::vector<int32_t>& ids : sorted.plain) {
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    ends_.push_back(ids_.size());
  }
  for (const int32_t id : ids_) mask_[id / 64] |= uint64_t{1} << (id % 64);
}

std::vector<uint64_t> PlainTokens::Mask(size_t max_characters) const {
  const size_t end = ends_[std::min(max_characters, longest())];
  if (end < ids_.size() / 2) {
    std::vector<uint64_t> mask(mask_.size());
    for (size_t i = 0; i < end; ++i) {
      mask[ids_[i] / 64] |= uint64_t{1} << (ids_[i] % 64);
    }
    return mask;
  }
  std::vector<uint64_t> mask = mask_;
  for (size_t i = end; i < ids_.size(); ++i) {
    mask[ids_[i] / 64] &= ~(uint64_t{1} << (ids_[i] % 64));
  }
  return mask;
}

}  // namespace deltafin
