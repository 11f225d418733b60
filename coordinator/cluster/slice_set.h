// coordinator/cluster/slice_set.h
//
// A set of (expert, slice) pairs: what a node has on its disk.
// Thread-compatible.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/expert_key.h"
#include "kernels/expert_weights.h"
#include "proto/cluster.pb.h"

namespace deltafin {

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
    return bits_[BitOf(key, slice)];
  }
  bool ContainsAll(ExpertKey key, SliceRun run) const;
  void Add(ExpertKey key, SliceRun run);
  void Remove(ExpertKey key, SliceRun run);
  int64_t size() const;

 private:
  size_t BitOf(ExpertKey key, int slice) const {
    return (size_t(key.layer - first_layer_) * num_experts_ + key.expert) *
               num_slices_ +
           slice;
  }

  int first_layer_;
  int num_layers_;
  int num_experts_;
  int num_slices_;
  std::vector<bool> bits_;
};

}  // namespace deltafin
