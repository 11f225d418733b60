// kernels/vector/span_loop.h
//
// Loops over a span of floats for the vector targets, written once over a
// vector type V (kernels/<target>/simd.h). Everything of kernels/vector/ lives
// in an unnamed namespace: each target compiles its own copy with its own
// instructions, and no symbol is shared.
#pragma once

#include <cstdint>

namespace deltafin {
namespace {

// How many lanes of a vector take part: all, or the first `count` (the others
// are loaded as zeros and not stored).
struct Full {};
struct Part {
  int count;
};

// Calls op(i, Full{}) for whole vectors and op(i, Part{left}) for the rest.
template <class V, class Op>
[[gnu::always_inline]] inline void ForEachVector(int n, Op op) {
  int i = 0;
  for (; i + V::kLanes <= n; i += V::kLanes) op(i, Full{});
  if (i < n) op(i, Part{n - i});
}

// Adds 32 lanes as the tree of docs/numerics.md section 6. Destroys them.
template <class V>
[[gnu::always_inline]] inline float AddLanes(float* lanes) {
  int h = 16;
  for (; h >= V::kLanes; h /= 2) {
    for (int j = 0; j < h; j += V::kLanes) {
      V::Store(lanes + j, V::Add(V::Load(lanes + j), V::Load(lanes + j + h)));
    }
  }
  for (; h >= 1; h /= 2) {
    for (int j = 0; j < h; ++j) lanes[j] = lanes[j] + lanes[j + h];
  }
  return lanes[0];
}

// `Sum` of section 6 over n elements. step(acc, i, lanes) adds elements i, i+1,
// ... to the lanes of acc; in the last 32, missing elements are zeros.
template <class V, class Step>
[[gnu::always_inline]] inline float LaneSum(int n, Step step) {
  constexpr int kVectors = 32 / V::kLanes;
  typename V::Floats acc[kVectors];
  for (int m = 0; m < kVectors; ++m) acc[m] = V::Set(0.0f);
  int i = 0;
  for (; i + 32 <= n; i += 32) {
#pragma GCC unroll 8
    for (int m = 0; m < kVectors; ++m) {
      acc[m] = step(acc[m], i + m * V::kLanes, Full{});
    }
  }
  if (i < n) {
    for (int m = 0; m < kVectors; ++m) {
      const int left = n - i - m * V::kLanes;
      const int count = left < 0 ? 0 : left < V::kLanes ? left : V::kLanes;
      acc[m] = step(acc[m], count == 0 ? 0 : i + m * V::kLanes, Part{count});
    }
  }
  alignas(64) float lanes[32];
  for (int m = 0; m < kVectors; ++m) V::Store(lanes + m * V::kLanes, acc[m]);
  return AddLanes<V>(lanes);
}

template <class V>
[[gnu::always_inline]] inline float SumOfSquares(const float* x, int n) {
  return LaneSum<V>(n, [x](auto acc, int i, auto lanes) {
    const auto v = V::Load(x + i, lanes);
    return V::Fma(v, v, acc);
  });
}

template <class V>
[[gnu::always_inline]] inline float SumOfProducts(const float* a,
                                                  const float* b, int n) {
  return LaneSum<V>(n, [a, b](auto acc, int i, auto lanes) {
    return V::Fma(V::Load(a + i, lanes), V::Load(b + i, lanes), acc);
  });
}

[[gnu::always_inline]] inline bool IsFiniteFloat(float v) {
  return (__builtin_bit_cast(uint32_t, v) & 0x7f800000u) != 0x7f800000u;
}

}  // namespace
}  // namespace deltafin
