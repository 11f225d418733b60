// kernels/tile_order.h
//
// One released MXFP4 matrix, or a rectangle of one, to tile order and back
// (docs/numerics.md section 3). Private to kernels/.
#pragma once

#include <cstddef>
#include <cstdint>

namespace deltafin {

// A rectangle of a released matrix that has its own tile order: all of a
// slice's gate or up rows, or its down columns. Byte is uint8_t, or const
// uint8_t where it is read.
template <typename Byte>
struct ReleasedPart {
  Byte* packed;         // two columns a byte, at the first row and column
  Byte* scale;          // one byte for 32 columns, likewise
  size_t packed_pitch;  // bytes from row to row
  size_t scale_pitch;
  int rows;  // >= 1
  int cols;  // a multiple of 32
};

// Writes the part in tile order to `out`, of any alignment; returns its end.
uint8_t* PackTiles(const ReleasedPart<const uint8_t>& part, uint8_t* out);

// Inverse of PackTiles; returns the end of what it read.
const uint8_t* UnpackTiles(const uint8_t* in,
                           const ReleasedPart<uint8_t>& part);

}  // namespace deltafin
