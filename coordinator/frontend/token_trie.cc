#include "coordinator/frontend/token_trie.h"

#include <algorithm>
#include <numeric>
#include <string_view>

namespace deltafin {
namespace {

std::vector<int32_t> OrdinaryIds(const Vocabulary& vocabulary) {
  std::vector<int32_t> ids(vocabulary.base());
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

}  // namespace

TokenTrie::TokenTrie(const Vocabulary& vocabulary)
    : TokenTrie(vocabulary, OrdinaryIds(vocabulary)) {}

TokenTrie::TokenTrie(const Vocabulary& vocabulary, std::vector<int32_t> ids) {
  std::sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
    return vocabulary.Bytes(a) < vocabulary.Bytes(b);
  });
  std::vector<uint32_t> open;  // nodes of the last token's bytes
  const auto close = [&](size_t depth) {
    for (; open.size() > depth; open.pop_back()) {
      nodes_[open.back()].next_beside = static_cast<uint32_t>(nodes_.size());
    }
  };
  int single_bytes = 0;
  std::string_view last;
  for (const int32_t id : ids) {
    const std::string_view bytes = vocabulary.Bytes(id);
    const auto differ =
        std::mismatch(last.begin(), last.end(), bytes.begin(), bytes.end());
    close(static_cast<size_t>(differ.first - last.begin()));
    while (open.size() < bytes.size()) {
      open.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back({0, -1, static_cast<uint16_t>(open.size()),
                        static_cast<uint8_t>(bytes[open.size() - 1])});
    }
    nodes_.back().token = id;
    depth_ = std::max(depth_, bytes.size());
    single_bytes += bytes.size() == 1 ? 1 : 0;
    last = bytes;
  }
  close(0);
  has_all_bytes_ = single_bytes == 256;
}

}  // namespace deltafin
