// kernels/vector/attention_scores.h
//
// scores[h][i] = Dot(query h, key i) * scale (docs/numerics.md section 7; Dot
// is section 4's rule). Lanes are positions: a chunk of 64 columns of a few
// keys is transposed once and then serves every query.
#pragma once

#include <cstdint>

#include "kernels/elementwise.h"
#include "kernels/vector/span_loop.h"

namespace deltafin {
namespace {

template <class V>
class VectorAttentionScores {
 public:
  static void Run(const AttentionArgs args) {
    for (int64_t i = 0; i < args.num_positions; i += kPositions) {
      const int64_t left = args.num_positions - i;
      const int count = left < kPositions ? static_cast<int>(left) : kPositions;
      for (int c = 0; c < args.key_dim; c += kColumns) {
        ScoreChunk(args, i, count, c);
      }
    }
  }

 private:
  using Floats = typename V::Floats;
  static constexpr int kColumns = 64;  // a chunk of section 4
  static constexpr int kVectors = V::kScoreVectors;
  static constexpr int kPositions = kVectors * V::kLanes;

  // Adds columns [c, c + 64) to the scores of `count` positions from i.
  static void ScoreChunk(const AttentionArgs& args, int64_t i, int count,
                         int c) {
    const int left = args.key_dim - c;
    const int columns = left < kColumns ? left : kColumns;
    alignas(64) float keys[kColumns * kPositions];  // [column][position]
    Transpose(args, i, count, c, columns, keys);
    int h = 0;
    const auto pass = [&]<int kQueries>() {
      for (; h + kQueries <= args.num_queries; h += kQueries) {
        ScoreQueries<kQueries>(args, h, i, count, c, columns, keys);
      }
    };
    pass.template operator()<V::kScoreQueries>();
    pass.template operator()<1>();
  }

  // Missing positions repeat the last one; their scores are not stored.
  static void Transpose(const AttentionArgs& args, int64_t i, int count, int c,
                        int columns, float* out) {
    constexpr int N = V::kLanes;
    for (int p = 0; p < kPositions; p += N) {
      const float* rows[N];
      for (int j = 0; j < N; ++j) {
        const int at = p + j < count ? p + j : count - 1;
        rows[j] = args.keys + (i + at) * args.key_dim + c;
      }
      int k = 0;
      for (; k + N <= columns; k += N) {
        Floats block[N];
        for (int j = 0; j < N; ++j) block[j] = V::Load(rows[j] + k);
        V::Transpose(block);
        for (int j = 0; j < N; ++j) {
          V::Store(out + (k + j) * kPositions + p, block[j]);
        }
      }
      for (; k < columns; ++k) {
        for (int j = 0; j < N; ++j) out[k * kPositions + p + j] = rows[j][k];
      }
    }
  }

  template <int kQueries>
  static void ScoreQueries(const AttentionArgs& args, int h, int64_t i,
                           int count, int c, int columns, const float* keys) {
    Floats acc[kQueries][kVectors];
    for (int q = 0; q < kQueries; ++q) {
      for (int m = 0; m < kVectors; ++m) acc[q][m] = V::Set(0.0f);
    }
    const size_t stride = args.key_dim;
    const float* query = args.query + h * stride + c;
    for (int k = 0; k < columns; ++k) {
      Floats key[kVectors];
#pragma GCC unroll 8
      for (int m = 0; m < kVectors; ++m) {
        key[m] = V::Load(keys + k * kPositions + m * V::kLanes);
      }
#pragma GCC unroll 8
      for (int q = 0; q < kQueries; ++q) {
        const Floats x = V::Set(query[q * stride + k]);
#pragma GCC unroll 8
        for (int m = 0; m < kVectors; ++m) {
          acc[q][m] = V::Fma(key[m], x, acc[q][m]);
        }
      }
    }
    const bool first = c == 0;
    const Floats scale =
        V::Set(c + columns == args.key_dim ? args.scale : 1.0f);
    for (int q = 0; q < kQueries; ++q) {
      float* scores = args.scores + (h + q) * args.num_positions + i;
      for (int m = 0; m * V::kLanes < count; ++m) {
        AddScores(scores + m * V::kLanes, count - m * V::kLanes, acc[q][m],
                  scale, first);
      }
    }
  }

  // A factor of 1 between chunks changes no bit.
  static void AddScores(float* scores, int count, Floats sum, Floats scale,
                        bool first) {
    const Part part{count < V::kLanes ? count : V::kLanes};
    const Floats before = first ? V::Set(0.0f) : V::Load(scores, part);
    V::Store(scores, V::Mul(V::Add(before, sum), scale), part);
  }
};

}  // namespace
}  // namespace deltafin
