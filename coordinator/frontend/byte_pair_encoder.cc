#include "coordinator/frontend/byte_pair_encoder.h"

#include <algorithm>
#include <optional>

namespace deltafin {
namespace {

// Order of a heap whose front is the next merge.
constexpr auto kLater = [](const auto& a, const auto& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.begin > b.begin;
};

}  // namespace

void BytePairEncoder::Encode(std::string_view piece,
                             std::vector<int32_t>& ids) {
  if (const auto rank = vocabulary_.FindRank(piece)) {
    ids.push_back(*rank);
    return;
  }
  const auto size = static_cast<uint32_t>(piece.size());
  parts_.resize(size);
  for (uint32_t i = 0; i < size; ++i) parts_[i] = {i + 1, i - 1, true};
  queue_.clear();
  for (uint32_t i = 0; i < size; ++i) Offer(piece, i);
  while (!queue_.empty()) {
    std::pop_heap(queue_.begin(), queue_.end(), kLater);
    const Merge merge = queue_.back();
    queue_.pop_back();
    if (IsCurrent(merge)) Apply(piece, merge);
  }
  for (uint32_t i = 0; i < size; i = parts_[i].end) {
    ids.push_back(*vocabulary_.FindRank(piece.substr(i, parts_[i].end - i)));
  }
}

// Queues the merge of the part at `begin` with the next one, if it is a token.
void BytePairEncoder::Offer(std::string_view piece, uint32_t begin) {
  const uint32_t middle = parts_[begin].end;
  if (middle == piece.size()) return;
  const uint32_t end = parts_[middle].end;
  if (const auto rank =
          vocabulary_.FindRank(piece.substr(begin, end - begin))) {
    queue_.push_back({*rank, begin, middle, end});
    std::push_heap(queue_.begin(), queue_.end(), kLater);
  }
}

// Whether both parts are still as they were.
bool BytePairEncoder::IsCurrent(const Merge& merge) const {
  return parts_[merge.begin].alive && parts_[merge.begin].end == merge.middle &&
         parts_[merge.middle].end == merge.end;
}

void BytePairEncoder::Apply(std::string_view piece, const Merge& merge) {
  parts_[merge.middle].alive = false;
  parts_[merge.begin].end = merge.end;
  if (merge.end < piece.size()) parts_[merge.end].previous = merge.begin;
  Offer(piece, merge.begin);
  if (merge.begin > 0) Offer(piece, parts_[merge.begin].previous);
}

}  // namespace deltafin
