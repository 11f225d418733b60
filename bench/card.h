// bench/card.h
//
// What the benches of NVIDIA cards have in common. A call that fails ends the
// program (1) with a sentence. Thread-compatible.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "kernels/cuda/cuda_experts.h"

namespace deltafin::bench {

[[noreturn]] void Fail(const std::string& why);
void Check(cudaError_t error);

CudaCard FindCard(int index);
std::unique_ptr<CudaMemory> AllocateOn(int card, size_t bytes);

// Time between two places of a stream, which must outlive it.
class CardTimer {
 public:
  explicit CardTimer(cudaStream_t stream);
  ~CardTimer();
  CardTimer(const CardTimer&) = delete;
  CardTimer& operator=(const CardTimer&) = delete;

  void Begin();
  // Waits; microseconds since Begin.
  double End();

 private:
  cudaStream_t stream_;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

// Bytes read and written a second by a copy within the card's memory: of one
// half of what is given (at most 4 GiB) to the other.
double CopySpeed(const CudaMemory& memory, cudaStream_t stream);

}  // namespace deltafin::bench
