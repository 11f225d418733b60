// kernels/vector/attention_values.h
//
// out[h][c] = (sum over blocks of 256 positions of sum p_i v_i[c]) * inv
// (docs/numerics.md section 7). Lanes are channels; a strip of channels of a
// block serves all queries while it is in cache.
#pragma once

#include <cstdint>

#include "kernels/elementwise.h"
#include "kernels/vector/span_loop.h"

namespace deltafin {
namespace {

// One block of positions: value rows [count] with a stride, and one row of
// weights for each query.
struct ValueBlock {
  const float* values = nullptr;  // first row, channel 0
  size_t value_stride = 0;
  const float* weights = nullptr;  // [query][weight_stride], at the block
  size_t weight_stride = 0;
  int count = 0;  // positions
  bool first = false;
  float* out = nullptr;  // [query][out_stride]
  size_t out_stride = 0;
};

template <class V>
class VectorAttentionValues {
 public:
  // scores: the weights p. out: sums, not yet multiplied by 1 / d.
  static void Run(const AttentionArgs args) {
    ValueBlock block;
    block.value_stride = args.key_dim;
    block.weight_stride = static_cast<size_t>(args.num_positions);
    block.out = args.out;
    block.out_stride = args.value_dim;
    for (int64_t i = 0; i < args.num_positions; i += kAttentionBlock) {
      const int64_t left = args.num_positions - i;
      block.values = args.keys + i * args.key_dim;
      block.weights = args.scores + i;
      block.first = i == 0;
      block.count =
          left < kAttentionBlock ? static_cast<int>(left) : kAttentionBlock;
      AddBlock(block, args.num_queries, args.value_dim);
    }
  }

 private:
  using Floats = typename V::Floats;

  static void AddBlock(const ValueBlock& block, int num_queries, int width) {
    constexpr int kVectors = V::kValueVectors;
    int c = 0;
    for (; c + kVectors * V::kLanes <= width; c += kVectors * V::kLanes) {
      AddStrip<kVectors>(block, num_queries, c, Full{});
    }
    for (; c + V::kLanes <= width; c += V::kLanes) {
      AddStrip<1>(block, num_queries, c, Full{});
    }
    if (c < width) AddStrip<1>(block, num_queries, c, Part{width - c});
  }

  template <int kVectors, class Lanes>
  static void AddStrip(const ValueBlock& block, int num_queries, int c,
                       Lanes lanes) {
    int h = 0;
    for (; h + V::kValueQueries <= num_queries; h += V::kValueQueries) {
      AddQueries<V::kValueQueries, kVectors>(block, h, c, lanes);
    }
    for (; h < num_queries; ++h) AddQueries<1, kVectors>(block, h, c, lanes);
  }

  template <int kQueries, int kVectors, class Lanes>
  static void AddQueries(const ValueBlock& block, int h, int c, Lanes lanes) {
    Floats acc[kQueries][kVectors];
    for (int q = 0; q < kQueries; ++q) {
      for (int m = 0; m < kVectors; ++m) acc[q][m] = V::Set(0.0f);
    }
    const size_t stride = block.weight_stride;
    const float* weights = block.weights + h * stride;
    const float* row = block.values + c;
    for (int i = 0; i < block.count; ++i, row += block.value_stride) {
      Floats v[kVectors];
#pragma GCC unroll 8
      for (int m = 0; m < kVectors; ++m) {
        v[m] = V::Load(row + m * V::kLanes, lanes);
      }
#pragma GCC unroll 8
      for (int q = 0; q < kQueries; ++q) {
        const Floats p = V::Set(weights[q * stride + i]);
#pragma GCC unroll 8
        for (int m = 0; m < kVectors; ++m) {
          acc[q][m] = V::Fma(p, v[m], acc[q][m]);
        }
      }
    }
    for (int q = 0; q < kQueries; ++q) {
      float* out = block.out + (h + q) * block.out_stride + c;
      for (int m = 0; m < kVectors; ++m, out += V::kLanes) {
        const Floats before = block.first ? V::Set(0.0f) : V::Load(out, lanes);
        V::Store(out, V::Add(before, acc[q][m]), lanes);
      }
    }
  }
};

}  // namespace
}  // namespace deltafin
