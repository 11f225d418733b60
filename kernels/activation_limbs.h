// kernels/activation_limbs.h
//
// How the vector kernels see quantised activations (docs/numerics.md section
// 2): X of each group of 32 columns split exactly into three signed bytes, X =
// l0 + 256 l1 + 65536 l2.
//
// Tokens go in blocks of B = 1 or 2. Per group, a block of B tokens has
// kGroupWords * B words of 32 bits:
//   head word k of token b at  k * B + b
//     k = kStart      -12 * sum of X: undoes the +12 of kShiftedCode
//     k = kStart16+l  two int16, -12 * sum of limb l over columns 0..3 and
//                     4..7 (mod 8)
//     k = kAddByte    max(e - 1, 0) in each byte
//     k = kSubByte    max(1 - e, 0) in each byte
//   limb word (octet q, half h, token b, limb l) at
//     kHeadWords * B + ((2 q + h) * B + b) * 3 + l,
//     bytes: columns 8q + h + {0, 2, 4, 6}, as the nibbles of a released dword.
#pragma once

#include <cstdint>

namespace deltafin {

enum LimbHead : int { kStart = 0, kStart16 = 1, kAddByte = 4, kSubByte = 5 };

inline constexpr int kLimbs = 3;
inline constexpr int kHeadWords = 6;
inline constexpr int kLimbWords = 8 * kLimbs;
inline constexpr int kGroupWords = kHeadWords + kLimbWords;
inline constexpr int kMaxTokenBlock = 2;

// Writes the head words of one token from its exponent e. sum_x: sum of X;
// limb_sums[l][p]: sum of limb l over columns with (column / 4) % 2 == p.
void WriteLimbHead(int e, uint32_t sum_x, const int limb_sums[kLimbs][2],
                   int block_tokens, int lane, int32_t* group);

}  // namespace deltafin
