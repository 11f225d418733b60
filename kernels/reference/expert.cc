// Routed experts as docs/numerics.md sections 2 and 8 define them, one scalar
// operation after the other. Every other target must give these bits.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/expert_walk.h"
#include "kernels/fixed_point.h"
#include "kernels/mxfp4.h"
#include "kernels/reference/reference_tables.h"

namespace deltafin {
namespace {

// One token's group of 32 columns: X_j, then e.
struct QuantizedGroup {
  int32_t x[kMxfp4Group];
  int32_t exponent;
};
constexpr int kGroupWords = sizeof(QuantizedGroup) / sizeof(int32_t);

bool QuantizeGroup(const float* x, QuantizedGroup& group) {
  uint32_t largest = 0;
  for (int j = 0; j < kMxfp4Group; ++j) {
    largest = std::max(largest, std::bit_cast<uint32_t>(x[j]) & kMagnitudeMask);
  }
  if (largest >= kInfinityBits) return false;
  const uint32_t field = std::max<uint32_t>((largest + kMantissaCarry) >> 23,
                                            kLowestExponentField);
  const float scale = std::bit_cast<float>((276 - field) << 23);
  for (int j = 0; j < kMxfp4Group; ++j) {
    group.x[j] = static_cast<int32_t>(std::lrint(x[j] * scale));
  }
  group.exponent = static_cast<int>(field) - kExponentOffset;
  return true;
}

// Tokens of a block follow each other group by group.
bool Quantize(const float* x, int cols, int block_tokens, int lane,
              int32_t* out) {
  for (int g = 0; g < cols / kMxfp4Group; ++g) {
    QuantizedGroup group;
    if (!QuantizeGroup(x + g * kMxfp4Group, group)) return false;
    std::memcpy(out + (g * block_tokens + lane) * kGroupWords, &group,
                sizeof(group));
  }
  return true;
}

// 2^(e + scale - 128), 0 below the smallest normal, inf above the largest.
float GroupFactor(int scale, int exponent) {
  const int field = std::clamp(scale + exponent - 1, 0, 255);
  return std::bit_cast<float>(static_cast<uint32_t>(field) << 23);
}

// acc + group * row, where `octets` holds one dword of the row for each eight
// columns, `stride` bytes apart.
float AddGroup(const uint8_t* octets, size_t stride, int scale,
               const QuantizedGroup& group, float acc) {
  int32_t sum = 0;
  for (int j = 0; j < kMxfp4Group; ++j) {
    const uint8_t pair = octets[j / 8 * stride + j % 8 / 2];
    sum += kDoubledCode[j % 2 == 0 ? pair & 15 : pair >> 4] * group.x[j];
  }
  return std::fma(static_cast<float>(sum), GroupFactor(scale, group.exponent),
                  acc);
}

// One tile of `rows` rows and `groups` column groups for one token. `stride`:
// groups from one column group of the token to the next.
void AddTile(const uint8_t* tile, int rows, int groups,
             const QuantizedGroup* token, int stride, float* y) {
  const size_t octet_bytes = size_t{4} * rows;
  for (int r = 0; r < rows; ++r) {
    for (int g = 0; g < groups; ++g) {
      const uint8_t* octets =
          tile + groups * rows + g * kOctetsPerGroup * octet_bytes + 4 * r;
      y[r] = AddGroup(octets, octet_bytes, tile[g * rows + r],
                      token[g * stride], y[r]);
    }
  }
}

void MultiplyBlock(const uint8_t* tiles, int num_rows, int cols, int num_tokens,
                   const int32_t* prepared, float* y) {
  std::fill_n(y, num_tokens * kTileBlockRows, 0.0f);
  const auto* groups = reinterpret_cast<const QuantizedGroup*>(prepared);
  const int num_groups = cols / kMxfp4Group;
  for (int first = 0; first < num_groups; first += kTileGroups) {
    const int width = std::min(kTileGroups, num_groups - first);
    for (int row = 0; row < num_rows; row += kTileRows) {
      const int rows = std::min(kTileRows, num_rows - row);
      for (int t = 0; t < num_tokens; ++t) {
        const int lane = t % 2;
        const int block = lane == 0 && t + 1 == num_tokens ? 1 : 2;
        AddTile(tiles, rows, width,
                groups + (t - lane) * num_groups + first * block + lane, block,
                y + t * kTileBlockRows + row);
      }
      tiles += rows * width * kGroupRowBytes;
    }
  }
}

bool AllFinite(const float* y, int n) {
  return std::all_of(y, y + n, [](float v) { return std::isfinite(v); });
}

bool AddFixed(float weight, const float* y, int n, int64_t* sums) {
  for (int i = 0; i < n; ++i) {
    const double product = static_cast<double>(weight) * y[i];  // exact
    if (!(std::fabs(product) < kFixedLimit)) return false;
    sums[i] += static_cast<int64_t>(std::nearbyint(product * kFixedScale));
  }
  return true;
}

}  // namespace

constinit const ExpertOperations kReferenceExpertOperations = {
    kGroupWords, Quantize, MultiplyBlock,
    AllFinite,   AddFixed, &kReferenceElementwiseKernel,
};

}  // namespace deltafin
