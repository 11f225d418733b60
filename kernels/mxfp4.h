// kernels/mxfp4.h
//
// Constants of the MXFP4 format and of its tile order (docs/numerics.md
// sections 2 and 3). Arrays are not `inline`: each file has its own copy, so
// that files built for wider instructions define nothing the linker could pick
// for another file.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/expert_weights.h"

namespace deltafin {

// Twice the value of an e2m1 code: an integer.
constexpr int8_t kDoubledCode[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                     0, -1, -2, -3, -4, -6, -8, -12};
// The same plus 12, for dot products of unsigned with signed bytes.
constexpr uint8_t kShiftedCode[16] = {12, 13, 14, 15, 16, 18, 20, 24,
                                      12, 11, 10, 9,  8,  6,  4,  0};

inline constexpr int kTileRows = 32;
inline constexpr int kTileColumns = 64;
inline constexpr int kTileGroups = kTileColumns / kMxfp4Group;
inline constexpr int kTileBlockRows = 256;  // rows of a row block
// A full tile: two groups of 32 scale bytes, then eight octets of columns with
// one released dword (eight nibbles) a row.
inline constexpr int kTileScaleBytes = kTileGroups * kTileRows;
inline constexpr int kOctetBytes = 4 * kTileRows;
inline constexpr int kOctetsPerGroup = 4;
inline constexpr int kTileBytes = 1088;
// Bytes of one row of one group: a scale and 16 bytes of nibbles.
inline constexpr int kGroupRowBytes = 17;

// Activation exponents (section 2): the smallest biased exponent in use, the
// offset to e, and the bits that carry into the exponent when the mantissa
// exceeds 4/3.
inline constexpr int kLowestExponentField = 33;
inline constexpr int kExponentOffset = 149;
inline constexpr uint32_t kMantissaCarry = 0x555555;
inline constexpr uint32_t kMagnitudeMask = 0x7fffffff;
inline constexpr uint32_t kInfinityBits = 0x7f800000;

}  // namespace deltafin
