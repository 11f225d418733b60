// expert_node/device/cuda_expert_card.h
//
// An NVIDIA card as an ExpertCard, over kernels/cuda.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "expert_node/device/expert_card.h"
#include "expert_node/device/host_pins.h"

namespace deltafin {

// Errors: UNAVAILABLE in one sentence: no such card, a program without CUDA,
// too little memory for a request.
absl::StatusOr<std::unique_ptr<ExpertCard>> OpenCudaExpertCard(
    int index, const CardLimits& limits);

// Pins memory for all cards, by the driver of one of them.
HostPinner CudaHostPinner(int card);

}  // namespace deltafin
