// spine_node/residency.h
//
// Which layers of a spine stay in memory and which are read for every step when
// memory does not hold all. Pure.
//
// Those that are read lie evenly among the others, so that each has the time of
// several layers to arrive: two buffers hide what a run of streamed layers at
// the end could not (docs/performance.md, "A spine larger than RAM").
#pragma once

#include <cstdint>
#include <span>

namespace deltafin {

struct SpineResidency {
  int num_streamed = 0;
  uint64_t memory_bytes = 0;  // weights in memory, buffers included
  uint64_t buffer_bytes = 0;  // of them
  uint64_t step_bytes = 0;    // read for every step
};

// Whether `layer` is one of the num_streamed that are read. The first layer,
// the largest in K3, is the last to become one.
bool StreamsLayer(int layer, int num_layers, int num_streamed);

// A spine of weight_bytes, layer_bytes of which are the rows of each layer,
// with num_streamed of the layers streamed.
SpineResidency ResidencyOf(uint64_t weight_bytes,
                           std::span<const uint64_t> layer_bytes,
                           int num_streamed);

// The fewest streamed layers with which the spine takes at most `most_bytes`;
// what takes the least where none does. Without layers all is in memory.
SpineResidency ChooseResidency(uint64_t weight_bytes,
                               std::span<const uint64_t> layer_bytes,
                               uint64_t most_bytes);

}  // namespace deltafin
