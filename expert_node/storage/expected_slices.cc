#include "expert_node/storage/expected_slices.h"

#include <algorithm>

namespace deltafin {

void ExpectedSlices::SetLimit(size_t limit) {
  limit_ = limit;
  if (held_.size() + num_to_read_ > limit) Clear();
}

void ExpectedSlices::Expect(int layer, std::span<const ExpectedRun> runs) {
  std::erase_if(to_read_, [this, layer](const ExpectedRun& one) {
    if (one.expert.layer != layer) return false;
    num_to_read_ -= one.run.count;
    return true;
  });
  for (const ExpectedRun& one : runs) {
    if (held_.size() + num_to_read_ + one.run.count > limit_) return;
    num_to_read_ += one.run.count;
    to_read_.push_back(one);
  }
}

std::optional<ExpectedRun> ExpectedSlices::Take(int max_slices) {
  if (to_read_.empty()) return std::nullopt;
  ExpectedRun& front = to_read_.front();
  ExpectedRun next = front;
  next.run.count = std::min(next.run.count, max_slices);
  num_to_read_ -= next.run.count;
  front.run.first += next.run.count;
  front.run.count -= next.run.count;
  if (front.run.count == 0) to_read_.pop_front();
  return next;
}

bool ExpectedSlices::CountUse(Entry* entry) {
  if (held_.erase(entry) == 0) return false;
  ++stats_.used;
  cache_.Unpin(entry);
  return true;
}

bool ExpectedSlices::EndLayer(int layer) {
  Expect(layer, {});
  bool available = false;
  for (auto it = held_.begin(); it != held_.end();) {
    const auto held = it++;
    if (held->second != layer) continue;
    available |= LetGo(held->first);
    held_.erase(held);
  }
  return available;
}

bool ExpectedSlices::Clear() {
  to_read_.clear();
  num_to_read_ = 0;
  bool available = false;
  for (const auto& [entry, layer] : held_) available |= LetGo(entry);
  held_.clear();
  return available;
}

bool ExpectedSlices::LetGo(Entry* entry) {
  ++stats_.wasted;
  return cache_.Unpin(entry);
}

}  // namespace deltafin
