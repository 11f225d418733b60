// kernels/cuda/launches.h
//
// Starts of the kernels of a layer. Private to kernels/cuda/.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/layer_view.h"

namespace deltafin::cuda {

// Groups the tokens by expert, writes the jobs, quantises the tokens and clears
// the sums.
cudaError_t LaunchPrepare(const LayerView& view, cudaStream_t stream);

// Sets what begins with one_token for the view's shape on the current card,
// `card`.
cudaError_t PlanOneToken(int card, LayerView* view);

// A layer of a few tokens, each by itself, without LaunchPrepare. Blocks wait
// for each other, and the card must hold all at once: two of these on one card
// could stop each other. REQUIRES: top_k * slices_of_record is at most
// one_token_jobs; there are no more tokens than kMaxTokensAlone and
// multiprocessors; x is at a multiple of 16.
cudaError_t LaunchOneToken(const LayerView& view, cudaStream_t stream);

// Sets blocks and chained for the current card.
cudaError_t PlanLaunches(LayerView* view);

// The jobs of a prepared layer. REQUIRES: view.blocks is at most what
// PlanLaunches gave.
cudaError_t LaunchLayer(const LayerView& view, cudaStream_t stream);

}  // namespace deltafin::cuda
