// kernels/vector/linear_prepare.h
//
// Activations as the tile kernels read them: [chunk][token][kTokenWords], so
// that a chunk of all tokens is one run in the first cache. Missing columns of
// the last chunk are zeros.
#pragma once

#include <cstring>

#include "kernels/linear_layout.h"
#include "kernels/vector/span_loop.h"

namespace deltafin {
namespace {

// bf16 and f32 weights: the 64 activations as they are.
inline KernelStatus PrepareFloats(const float* x, size_t ldx, int num_tokens,
                                  int cols, int32_t* out) {
  constexpr int kColumns = 64;
  for (int c = 0; c < cols; c += kColumns) {
    const int columns = cols - c < kColumns ? cols - c : kColumns;
    for (int t = 0; t < num_tokens; ++t, out += kColumns) {
      std::memset(out, 0, kColumns * sizeof(float));
      std::memcpy(out, x + t * ldx + c, columns * sizeof(float));
    }
  }
  return KernelStatus::kOk;
}

// Section 2's quantisation of up to 128 columns: X (missing columns 0) and e.
struct Int8Activations {
  alignas(64) int32_t values[128];
  int32_t exponent;
};

// False: inf or NaN.
template <class V>
[[gnu::always_inline]] inline bool QuantizeActivations(const float* x,
                                                       int num_columns,
                                                       Int8Activations* out) {
  auto largest = V::ZeroInts();
  ForEachVector<V>(num_columns, [&](int i, auto lanes) {
    largest = V::MaxInts(largest, V::Magnitude(V::Load(x + i, lanes)));
  });
  int32_t magnitudes[V::kLanes];
  V::StoreInts(magnitudes, largest);
  uint32_t m = 0;
  for (const int32_t v : magnitudes) {
    const auto u = static_cast<uint32_t>(v);
    m = u > m ? u : m;
  }
  if (m >= 0x7f800000u) return false;
  const uint32_t shifted = (m + 0x555555u) >> 23;
  const int field = shifted < 33 ? 33 : static_cast<int>(shifted);
  out->exponent = field - 149;
  const float factor =
      __builtin_bit_cast(float, static_cast<uint32_t>(276 - field) << 23);
  for (int i = 0; i < 128; i += V::kLanes)
    V::StoreInts(out->values + i, V::ZeroInts());
  ForEachVector<V>(num_columns, [&](int i, auto lanes) {
    const auto scaled = V::Mul(V::Load(x + i, lanes), V::Set(factor));
    V::StoreInts(out->values + i, V::Round(scaled));
  });
  return true;
}

// Int8Tile::Write turns one token's chunk into its words.
template <class V, class Int8Tile>
KernelStatus PrepareInt8(const float* x, size_t ldx, int num_tokens, int cols,
                         int32_t* out) {
  constexpr int kColumns = 128;
  Int8Activations activations;
  for (int c = 0; c < cols; c += kColumns) {
    const int columns = cols - c < kColumns ? cols - c : kColumns;
    for (int t = 0; t < num_tokens; ++t, out += Int8Tile::kTokenWords) {
      if (!QuantizeActivations<V>(x + t * ldx + c, columns, &activations)) {
        return KernelStatus::kNotFinite;
      }
      Int8Tile::Write(activations, out);
    }
  }
  return KernelStatus::kOk;
}

// 2^e as a bit pattern.
[[gnu::always_inline]] inline int32_t PowerBits(int32_t exponent) {
  return static_cast<int32_t>(static_cast<uint32_t>(exponent + 127) << 23);
}

}  // namespace
}  // namespace deltafin
