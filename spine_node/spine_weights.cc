#include "spine_node/spine_weights.h"

#include "spine_node/streamed_layers.h"

namespace deltafin {

SpineWeights::SpineWeights() = default;
SpineWeights::~SpineWeights() = default;
SpineWeights::SpineWeights(SpineWeights&&) noexcept = default;
SpineWeights& SpineWeights::operator=(SpineWeights&&) noexcept = default;

}  // namespace deltafin
