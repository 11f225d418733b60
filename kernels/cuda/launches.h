// kernels/cuda/launches.h
//
// Starts of the two kernels of a layer. Private to kernels/cuda/.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/layer_view.h"

namespace deltafin::cuda {

// Groups the tokens by expert, writes the jobs, quantises the tokens and clears
// the sums.
cudaError_t LaunchPrepare(const LayerView& view, cudaStream_t stream);

// Sets blocks and chained for the current card.
cudaError_t PlanLaunches(LayerView* view);

// The jobs of a prepared layer. REQUIRES: view.blocks is at most what
// PlanLaunches gave.
cudaError_t LaunchLayer(const LayerView& view, cudaStream_t stream);

}  // namespace deltafin::cuda
