// expert_node/holdings.h
//
// What a node tells of the slices on its machine. Pure.
#pragma once

#include "common/base/model_spec.h"
#include "expert_node/storage/expert_store.h"
#include "proto/cluster.pb.h"

namespace deltafin {

// `version` is taken before the slices are looked at: what comes meanwhile has
// a later one.
v1::Holdings HoldingsOf(const ModelSpec& spec, const ExpertStore& experts);

// (expert, slice) pairs of the model that are held.
uint64_t CountHeldSlices(const ModelSpec& spec, const ExpertStore& experts);

}  // namespace deltafin
