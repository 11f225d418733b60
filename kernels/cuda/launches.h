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

// Blocks of the layer's kernel that the current card holds at once for the
// view's shape.
cudaError_t LayerBlocks(const LayerView& view, int* blocks);

// The jobs of a prepared layer. REQUIRES: view.blocks is at most LayerBlocks.
cudaError_t LaunchLayer(const LayerView& view, cudaStream_t stream);

}  // namespace deltafin::cuda
