// kernels/cuda/spine_state.h
//
// The step of a CudaSpine and the launches that its calls are made of. Private
// to kernels/cuda/.
#pragma once

#include <cuda_runtime_api.h>

#include <initializer_list>
#include <memory>
#include <string>

#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/spine_card.h"
#include "kernels/cuda/spine_launches.h"
#include "kernels/cuda/spine_workspace.h"

namespace deltafin {

struct CudaSpine::State {
  using Matrices = std::initializer_list<const CudaMatrix*>;

  ~State() {
    if (routed != nullptr) cudaFreeHost(routed);
    if (owns_stream) cudaStreamDestroy(target.stream);
  }

  bool Check(cudaError_t error, const char* doing, std::string* why) const {
    return cuda::Succeeded(error, card, doing, why);
  }
  bool Choose(std::string* why) const {
    return Check(cudaSetDevice(card), "choosing it", why);
  }

  // The parts of a prepared vector that these matrices read.
  static cuda::PreparedView For(const cuda::PreparedView& all,
                                Matrices matrices) {
    cuda::PreparedView wanted;
    for (const CudaMatrix* m : matrices) {
      if (m->row_scale == nullptr) {
        wanted.split = all.split;
      } else {
        wanted.limbs = all.limbs;
        wanted.factors = all.factors;
      }
    }
    return wanted;
  }

  // Starts the products; views[i] gets the sums of the i-th matrix. `early`: x
  // is older than the launch before.
  bool Multiply(cuda::SpineProduct product, const cuda::PreparedView& x,
                Matrices matrices,
                std::initializer_list<cuda::ProductView*> views,
                std::string* why, bool early = false);
  // Adds what pends, mixes, normalises; prepares for the matrices.
  bool MixInput(const float* mix, const float* norm, float* next_snapshot,
                Matrices readers, std::string* why);
  bool Prepare(const float* x, int width, const cuda::PreparedView& out,
               std::string* why);
  bool AttendKda(const CudaSpineLayer& layer, const CudaSequence* sequences,
                 int num_sequences, std::string* why);
  bool AttendMla(const CudaSpineLayer& layer, const CudaSequence* sequences,
                 int num_sequences, std::string* why);
  cuda::MlaCall DescribeMla(const CudaMlaWeights& w,
                            const CudaSequence* sequences,
                            int num_sequences) const;
  // Expert sums [T, latent] on the card: where they are, or a copy.
  bool BringSums(const int64_t* sums, const int64_t** on_card,
                 std::string* why);
  // `early`: the input is older than the launch before.
  bool FeedForward(const CudaMlpWeights& w, cuda::ProductView* down,
                   std::string* why, bool early);

  int card = 0;
  CudaSpineShape shape;
  cuda::SpineTarget target;
  bool owns_stream = false;
  std::unique_ptr<cuda::SpineWorkspace> work;
  int32_t* routed = nullptr;  // pinned: what TakeRouted gives

  // The step.
  int num_tokens = 0;
  int num_snapshots = 0;
  cuda::PendingSum pending;
  cuda::ProductView shared;  // the shared experts' output
};

}  // namespace deltafin
