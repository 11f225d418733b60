// coordinator/cluster/model_extent.h
//
// The routed experts of a model: how many there are, and how large. Plain data.
#pragma once

#include <cstdint>

#include "coordinator/cluster/slice_set.h"

namespace deltafin {

struct ModelExtent {
  int first_layer = 0;      // with routed experts
  int num_layers = 0;       // with routed experts
  int num_experts = 0;      // in a layer
  int num_slices = 0;       // of an expert
  int top_k = 1;            // experts of a token in a layer
  int64_t slice_bytes = 0;  // on a drive; 0: not known

  // (expert, slice) pairs.
  int64_t num_pairs() const {
    return int64_t{num_layers} * num_experts * num_slices;
  }
  SliceSet NoSlices() const {
    return SliceSet(first_layer, num_layers, num_experts, num_slices);
  }
};

}  // namespace deltafin
