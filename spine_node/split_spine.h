// spine_node/split_spine.h
//
// One spine out of two: `front` computes the first layers, on a card say, and
// `back` the others and the head, where their bytes are. The rows of a step are
// handed over once. Not thread-safe.
#pragma once

#include <memory>

#include "spine_node/partial_spine.h"

namespace deltafin {

// Layers [0, num_front_layers) run in `front`. REQUIRES: both are of the same
// model; 1 <= num_front_layers <= its layers.
std::unique_ptr<Spine> MakeSplitSpine(std::unique_ptr<PartialSpine> front,
                                      std::unique_ptr<PartialSpine> back,
                                      int num_front_layers);

}  // namespace deltafin
