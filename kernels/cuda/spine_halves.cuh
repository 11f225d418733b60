// kernels/cuda/spine_halves.cuh
//
// Floats as two fp16 halves for the matrix unit: x * 2^-e = high + low, which
// leaves 2^-22 of x and 2^-37 of the largest value that `e` was chosen for
// (HalvesExponent). Private to kernels/cuda/.
#pragma once

#include "kernels/cuda/spine_device.cuh"

namespace deltafin::cuda {
namespace {

// Two neighbours; the first one in the lower bits.
struct Halves {
  uint32_t high;
  uint32_t low;
};

__device__ __forceinline__ uint32_t PackHalves(float first, float second) {
  uint32_t packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(second), "f"(first));
  return packed;
}

__device__ __forceinline__ Halves SplitHalves(float first, float second) {
  const uint32_t high = PackHalves(first, second);
  float first_high, second_high;
  asm("{.reg .f16 a, b; mov.b32 {a, b}, %2; cvt.f32.f16 %0, a; "
      "cvt.f32.f16 %1, b;}"
      : "=f"(first_high), "=f"(second_high)
      : "r"(high));
  return {high, PackHalves(first - first_high, second - second_high)};
}

// c += a b: 16 rows, 8 columns, 16 terms.
__device__ __forceinline__ void MultiplyHalves(float c[4], const uint32_t a[4],
                                               const uint32_t b[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Four matrices of 8 by 8 halves; lanes 8i..8i+7 give the rows of matrix i.
__device__ __forceinline__ void LoadMatrices(const uint16_t* row,
                                             uint32_t m[4]) {
  const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(address));
}

__device__ __forceinline__ void LoadTransposed(const uint16_t* row,
                                               uint32_t m[4]) {
  const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
      : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
      : "r"(address));
}

}  // namespace
}  // namespace deltafin::cuda
