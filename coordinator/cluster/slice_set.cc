#include "coordinator/cluster/slice_set.h"

#include <algorithm>
#include <bit>

#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

absl::Status Unfit(std::string_view field, size_t value, size_t wanted) {
  return absl::InvalidArgumentError(fmt::format(
      "holdings.{} is {}, this model needs {}; start node and coordinator from "
      "the same model and release",
      field, value, wanted));
}

}  // namespace

SliceSet::SliceSet(int first_layer, int num_layers, int num_experts,
                   int num_slices)
    : first_layer_(first_layer),
      num_layers_(num_layers),
      num_experts_(num_experts),
      num_slices_(num_slices),
      num_pairs_(int64_t{num_layers} * num_experts * num_slices),
      words_((num_pairs_ + 63) / 64) {}

absl::StatusOr<SliceSet> SliceSet::FromProto(const v1::Holdings& holdings,
                                             int first_layer, int num_layers,
                                             int num_experts, int num_slices) {
  const size_t bytes_per_expert = (num_slices + 7) / 8;
  if (holdings.bytes_per_expert() != bytes_per_expert) {
    return Unfit("bytes_per_expert", holdings.bytes_per_expert(),
                 bytes_per_expert);
  }
  if (holdings.layers_size() != num_layers) {
    return Unfit("layers", holdings.layers_size(), num_layers);
  }
  SliceSet set(first_layer, num_layers, num_experts, num_slices);
  int64_t bit = 0;
  for (const std::string& layer : holdings.layers()) {
    if (layer.size() != bytes_per_expert * num_experts) {
      return Unfit("layers size", layer.size(), bytes_per_expert * num_experts);
    }
    for (int expert = 0; expert < num_experts; ++expert) {
      const char* bytes = &layer[expert * bytes_per_expert];
      for (int slice = 0; slice < num_slices; ++slice, ++bit) {
        if (bytes[slice / 8] >> (slice % 8) & 1) set.SetBit(bit);
      }
    }
  }
  return set;
}

void SliceSet::ToProto(v1::Holdings* holdings) const {
  const size_t bytes_per_expert = (num_slices_ + 7) / 8;
  holdings->set_everything(false);
  holdings->set_bytes_per_expert(static_cast<uint32_t>(bytes_per_expert));
  holdings->clear_layers();
  int64_t bit = 0;
  for (int layer = 0; layer < num_layers_; ++layer) {
    std::string bytes(bytes_per_expert * num_experts_, '\0');
    for (int expert = 0; expert < num_experts_; ++expert) {
      for (int slice = 0; slice < num_slices_; ++slice) {
        if (HasBit(bit++)) {
          bytes[expert * bytes_per_expert + slice / 8] |=
              static_cast<char>(1 << slice % 8);
        }
      }
    }
    holdings->add_layers(std::move(bytes));
  }
}

bool SliceSet::ContainsAll(ExpertKey key, SliceRun run) const {
  const int64_t first = BitOf(key, run.first);
  for (int64_t bit = first; bit < first + run.count; ++bit) {
    if (!HasBit(bit)) return false;
  }
  return true;
}

void SliceSet::Add(ExpertKey key, SliceRun run) {
  const int64_t first = BitOf(key, run.first);
  for (int64_t bit = first; bit < first + run.count; ++bit) SetBit(bit);
}

void SliceSet::Remove(ExpertKey key, SliceRun run) {
  const int64_t first = BitOf(key, run.first);
  for (int64_t bit = first; bit < first + run.count; ++bit) {
    words_[bit / 64] &= ~(uint64_t{1} << bit % 64);
  }
}

int64_t SliceSet::size() const {
  int64_t size = 0;
  for (const uint64_t word : words_) size += std::popcount(word);
  return size;
}

void SliceSet::UnionWith(const SliceSet& other) {
  for (size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
}

void SliceSet::IntersectWith(const SliceSet& other) {
  for (size_t i = 0; i < words_.size(); ++i) words_[i] &= other.words_[i];
}

void SliceSet::Subtract(const SliceSet& other) {
  for (size_t i = 0; i < words_.size(); ++i) words_[i] &= ~other.words_[i];
}

int64_t SliceSet::CountNotIn(const SliceSet& other) const {
  int64_t count = 0;
  for (size_t i = 0; i < words_.size(); ++i) {
    count += std::popcount(words_[i] & ~other.words_[i]);
  }
  return count;
}

SliceSet SliceSet::Complement() const {
  SliceSet set = *this;
  for (uint64_t& word : set.words_) word = ~word;
  if (num_pairs_ % 64 != 0) {
    set.words_.back() &= (uint64_t{1} << num_pairs_ % 64) - 1;
  }
  return set;
}

bool SliceSet::NextRun(int64_t* from, ExpertRun* run) const {
  int64_t bit = *from;
  while (bit < num_pairs_) {
    const uint64_t rest = words_[bit / 64] >> bit % 64;
    if (rest != 0) {
      bit += std::countr_zero(rest);
      break;
    }
    bit = (bit / 64 + 1) * 64;
  }
  if (bit >= num_pairs_) return false;
  const int64_t expert = bit / num_slices_;
  const int64_t expert_end = (expert + 1) * num_slices_;
  int64_t end = bit + 1;
  while (end < expert_end && HasBit(end)) ++end;
  run->key = {static_cast<int>(first_layer_ + expert / num_experts_),
              static_cast<int>(expert % num_experts_)};
  run->slices = {static_cast<int>(bit % num_slices_),
                 static_cast<int>(end - bit)};
  *from = end;
  return true;
}

}  // namespace deltafin
