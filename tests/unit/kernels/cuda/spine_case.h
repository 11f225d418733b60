// tests/unit/kernels/cuda/spine_case.h
//
// Random layers of the spine on the host and in a card's memory.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/cuda/cuda_experts.h"
#include "kernels/cuda/spine_card.h"
#include "tests/unit/kernels/cuda/spine_definition.h"

namespace deltafin::testing {

// A small model of the family; `wide`: heads of 128 and ragged extents.
CudaSpineShape SmallSpineShape(bool wide);

class RandomSpine {
 public:
  RandomSpine(const CudaSpineShape& shape, bool int8, uint32_t seed)
      : shape_(shape), int8_(int8), random_(seed) {}

  HostLayer Layer(bool is_mla, bool is_moe);
  // Values about one.
  Rows Vectors(int count, int width);

 private:
  HostMatrix Matrix(int rows, int cols, bool int8);
  std::vector<float> Vector(int count, float middle, float spread);

  const CudaSpineShape shape_;
  const bool int8_;
  std::mt19937 random_;
};

HostState EmptyHostState(const CudaSpineShape& shape);

// Copies to a card's memory, which live as long as this.
class CardCopies {
 public:
  explicit CardCopies(int card) : card_(card) {}

  CudaSpineLayer Upload(const HostLayer& layer);
  // Zeros, for states and caches.
  float* Zeros(size_t count);
  template <typename T>
  const T* Upload(const std::vector<T>& values) {
    return reinterpret_cast<const T*>(
        Bytes(values.data(), values.size() * sizeof(T)));
  }

 private:
  const uint8_t* Bytes(const void* from, size_t count);
  CudaMatrix Upload(const HostMatrix& matrix);

  const int card_;
  std::vector<std::unique_ptr<CudaMemory>> memory_;
};

}  // namespace deltafin::testing
