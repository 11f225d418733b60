// kernels/cuda/cuda_check.h
//
// Sentences for failed CUDA calls. Private to kernels/cuda/.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

namespace deltafin::cuda {

// True for success; otherwise says in *why what failed on which card.
inline bool Succeeded(cudaError_t error, int card, const char* doing,
                      std::string* why) {
  if (error == cudaSuccess) return true;
  cudaGetLastError();  // a refused call says nothing about the next one
  *why = "CUDA card " + std::to_string(card) + ": " + doing + ": " +
         cudaGetErrorString(error) + " (" + cudaGetErrorName(error) + ")";
  return false;
}

}  // namespace deltafin::cuda
