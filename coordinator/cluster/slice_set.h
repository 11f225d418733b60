// coordinator/cluster/slice_set.h
//
// A set of (expert, slice) pairs: what a node has on its disk, is meant to
// have, lacks. Thread-compatible.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/expert_key.h"
#include "kernels/expert_weights.h"
#include "proto/cluster.pb.h"

namespace deltafin {

// Slices of one expert.
struct ExpertRun {
  ExpertKey key;
  SliceRun slices;
};

class SliceSet {
 public:
  // Layers count from first_layer, which is the first with routed experts.
  SliceSet(int first_layer, int num_layers, int num_experts, int num_slices);

  // From the wire. Errors: INVALID_ARGUMENT naming the field that does not fit
  // the model.
  static absl::StatusOr<SliceSet> FromProto(const v1::Holdings& holdings,
                                            int first_layer, int num_layers,
                                            int num_experts, int num_slices);
  void ToProto(v1::Holdings* holdings) const;

  bool Contains(ExpertKey key, int slice) const {
    return HasBit(BitOf(key, slice));
  }
  bool ContainsAll(ExpertKey key, SliceRun run) const;
  void Add(ExpertKey key, SliceRun run);
  void Remove(ExpertKey key, SliceRun run);
  int64_t size() const;

  // With sets of the same model.
  void UnionWith(const SliceSet& other);
  void IntersectWith(const SliceSet& other);
  void Subtract(const SliceSet& other);
  // Pairs that `other` lacks.
  int64_t CountNotIn(const SliceSet& other) const;
  // All pairs of the model that are not in the set.
  SliceSet Complement() const;

  // Pairs in the order of layer, expert, slice; those of word w begin with
  // number 64 w, the lowest bit first. No bits behind the last pair.
  int64_t num_pairs() const { return num_pairs_; }
  std::span<const uint64_t> words() const { return words_; }
  std::span<uint64_t> mutable_words() { return words_; }
  // The first run of an expert's slices at or behind pair `from`, which may lie
  // inside it. False: there is none. Advances *from behind the run.
  bool NextRun(int64_t* from, ExpertRun* run) const;

 private:
  int64_t BitOf(ExpertKey key, int slice) const {
    return (int64_t{key.layer - first_layer_} * num_experts_ + key.expert) *
               num_slices_ +
           slice;
  }
  bool HasBit(int64_t bit) const { return words_[bit / 64] >> bit % 64 & 1; }
  void SetBit(int64_t bit) { words_[bit / 64] |= uint64_t{1} << bit % 64; }

  int first_layer_;
  int num_layers_;
  int num_experts_;
  int num_slices_;
  int64_t num_pairs_;
  std::vector<uint64_t> words_;
};

}  // namespace deltafin
