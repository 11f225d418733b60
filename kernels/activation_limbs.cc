#include "kernels/activation_limbs.h"

#include <algorithm>

namespace deltafin {

void WriteLimbHead(int e, uint32_t sum_x, const int limb_sums[kLimbs][2],
                   int block_tokens, int lane, int32_t* group) {
  const auto word = [&](int k) -> int32_t& {
    return group[k * block_tokens + lane];
  };
  word(kStart) = static_cast<int32_t>(uint32_t{0} - 12 * sum_x);
  for (int l = 0; l < kLimbs; ++l) {
    const auto low = static_cast<uint16_t>(-12 * limb_sums[l][0]);
    const auto high = static_cast<uint16_t>(-12 * limb_sums[l][1]);
    word(kStart16 + l) =
        static_cast<int32_t>(low | static_cast<uint32_t>(high) << 16);
  }
  constexpr uint32_t kEveryByte = 0x01010101;
  word(kAddByte) = static_cast<int32_t>(kEveryByte * std::max(e - 1, 0));
  word(kSubByte) = static_cast<int32_t>(kEveryByte * std::max(1 - e, 0));
}

}  // namespace deltafin
