#include "tests/unit/kernels/cuda/warp_twin.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace deltafin {
namespace {

using cuda::kActivationBytes;

// Operands and sums of the instruction m16n8k32, each lane's registers.
struct Product {
  uint32_t a[32][4];
  uint32_t b[32][2];
  int32_t sums[32][4];

  void Run() {
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < 4; ++i) {
        const int row = lane / 4 + (i >= 2 ? 8 : 0);
        const int column = lane % 4 * 2 + i % 2;
        for (int k = 0; k < 32; ++k) {
          sums[lane][i] = static_cast<int32_t>(
              static_cast<uint32_t>(sums[lane][i]) +
              static_cast<uint32_t>(A(row, k) * B(k, column)));
        }
      }
    }
  }

 private:
  int A(int row, int k) const {
    const int lane = row % 8 * 4 + k % 16 / 4;
    return a[lane][row / 8 + k / 16 * 2] >> k % 4 * 8 & 255;
  }
  int B(int k, int column) const {
    const int lane = column * 4 + k % 16 / 4;
    return static_cast<int8_t>(b[lane][k / 16] >> k % 4 * 8 & 255);
  }
};

uint32_t Word(const uint8_t* p) {
  uint32_t word;
  std::memcpy(&word, p, sizeof(word));
  return word;
}

// What two instructions take one after the other.
uint32_t Merged(uint32_t nibbles) {
  const cuda::SplitCodes codes = cuda::ShiftedCodes(nibbles, {});
  return codes.positive + codes.negative;
}

// One group of 32 rows: its dwords [octet][row] and its scales.
void AddGroup(const uint8_t* octets, const uint8_t* scales,
              const TwinTokens& tokens, int group, float* y) {
  const int num_tokens = static_cast<int>(tokens.limbs.size());
  for (int half = 0; half < 2; ++half) {
    Product low = {};
    Product high = {};
    for (int lane = 0; lane < 32; ++lane) {
      const int g = lane / 4;
      const int c = lane % 4;
      for (int i = 0; i < 2; ++i) {
        const uint32_t dword =
            Word(octets + c * kOctetBytes + (4 * g + 2 * half + i) * 4);
        low.a[lane][i] = Merged(dword);
        low.a[lane][2 + i] = Merged(dword >> 16);
      }
      std::copy_n(low.a[lane], 4, high.a[lane]);
      if (g / 2 < num_tokens) {
        const uint8_t* limbs =
            &tokens
                 .limbs[g / 2][group * kActivationBytes + g % 2 * 64 + c * 16];
        for (int i = 0; i < 2; ++i) {
          low.b[lane][i] = Word(limbs + 4 * i);
          high.b[lane][i] = Word(limbs + 8 + 4 * i);
        }
      }
      if (c < num_tokens) {
        const cuda::ActivationHead& head = tokens.heads[c][group];
        low.sums[lane][0] = head.start;
        low.sums[lane][1] = head.zero;
        low.sums[lane][2] = head.second_start;
        low.sums[lane][3] = head.fields;
      }
    }
    low.Run();
    high.Run();
    for (int lane = 0; lane < 32; ++lane) {
      const int first = lane / 4 * 4;
      const int token = lane % 4;
      if (token >= num_tokens) continue;
      float factor[4];
      cuda::GroupFactors(Word(scales + first),
                         tokens.heads[token][group].fields, factor);
      for (int i = 0; i < 2; ++i) {
        const int32_t sum =
            cuda::CombineLimbs(low.sums[lane][2 * i], low.sums[lane][2 * i + 1],
                               high.sums[lane][2 * i], {});
        float& acc = y[(first + 2 * half + i) * 4 + token];
        acc = fmaf(static_cast<float>(sum), factor[2 * half + i], acc);
      }
    }
  }
}

}  // namespace

void TwinTokens::Add(const std::vector<float>& x) {
  groups = static_cast<int>(x.size()) / kMxfp4Group;
  limbs.emplace_back(groups * kActivationBytes, uint8_t{0});
  heads.emplace_back(groups);
  for (int g = 0; g < groups; ++g) {
    uint32_t largest = 0;
    for (int j = 0; j < kMxfp4Group; ++j) {
      largest =
          std::max(largest, cuda::BitsOf(x[g * kMxfp4Group + j]) & 0x7fffffffu);
    }
    const int field = cuda::ExponentField(largest);
    int32_t sum = 0;
    for (int j = 0; j < kMxfp4Group; ++j) {
      const int32_t value = cuda::QuantizedValue(x[g * kMxfp4Group + j], field);
      int8_t limb[3];
      cuda::SplitLimbs(value, limb);
      for (int l = 0; l < 3; ++l) {
        limbs.back()[g * kActivationBytes + cuda::ActivationOffset(j, l)] =
            static_cast<uint8_t>(limb[l]);
      }
      sum += value;
    }
    heads.back()[g] = cuda::HeadOf(field, sum);
  }
}

std::vector<float> MultiplyStripTwin(const uint8_t* block, int rows, int strip,
                                     const TwinTokens& tokens) {
  std::vector<float> y(kTileRows * cuda::kProductTokens, 0.0f);
  for (int group = 0; group < tokens.groups; ++group) {
    const int first = group / kTileGroups * kTileGroups;
    const int width = std::min(kTileGroups, tokens.groups - first);
    const uint8_t* tile = block + rows * first * kGroupRowBytes +
                          strip * kTileRows * width * kGroupRowBytes;
    AddGroup(tile + width * kTileRows +
                 (group - first) * kOctetsPerGroup * kOctetBytes,
             tile + (group - first) * kTileRows, tokens, group, y.data());
  }
  return y;
}

}  // namespace deltafin
