// kernels/expert_tiles.h
//
// Tile order of MXFP4 matrices and expert records (docs/numerics.md section 3):
// released bytes in, kernel order out, and back. Bytes are permuted, none is
// changed. Thread-compatible, no I/O.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/expert_weights.h"

namespace deltafin {

// The six released tensors of one expert, as they lie in the checkpoint.
// Packed: two columns a byte, low nibble first; scales: one e8m0 byte for 32
// columns.
struct ReleasedExpert {
  const uint8_t* gate_packed = nullptr;  // w1.weight_packed [F, L/2]
  const uint8_t* gate_scale = nullptr;   // w1.weight_scale  [F, L/32]
  const uint8_t* up_packed = nullptr;    // w3.weight_packed [F, L/2]
  const uint8_t* up_scale = nullptr;     // w3.weight_scale  [F, L/32]
  const uint8_t* down_packed = nullptr;  // w2.weight_packed [L, F/2]
  const uint8_t* down_scale = nullptr;   // w2.weight_scale  [L, F/32]
};

// The same six, writable, for the inverse.
struct ReleasedExpertBuffers {
  uint8_t* gate_packed = nullptr;
  uint8_t* gate_scale = nullptr;
  uint8_t* up_packed = nullptr;
  uint8_t* up_scale = nullptr;
  uint8_t* down_packed = nullptr;
  uint8_t* down_scale = nullptr;
};

// Writes slices [run.first, run.first + run.count) to `out`, one after the
// other: the bytes slice_offset(first) .. slice_offset(first + count) of the
// record. `out` may have any alignment. Scale byte 255 is not looked for here:
// see FindNanScale.
void PackSlices(const ExpertShape& shape, const ReleasedExpert& released,
                SliceRun run, uint8_t* out);

// Inverse of PackSlices over the whole record (all slices).
void UnpackRecord(const ExpertShape& shape, const uint8_t* record,
                  const ReleasedExpertBuffers& released);

// Where a scale byte 255 (NaN) lies.
struct NanScale {
  bool found = false;
  char matrix =
      ' ';  // '1' gate, '3' up, '2' down, as in the tensor name w1, w3, w2
  int row = 0;
  int group = 0;
};

// First scale byte 255 of a released expert in the order w1, w2, w3, row,
// group.
NanScale FindNanScale(const ExpertShape& shape, const ReleasedExpert& released);

// Offset in slice `slice`, given in tile order, of its first scale byte 255, or
// -1. Touches the scale bytes only.
ptrdiff_t FindNanScaleInSlice(const ExpertShape& shape, int slice,
                              const uint8_t* bytes);

// A slice's matrices lie one after the other: gate, up, down.
inline constexpr int kSliceMatrices = 3;
size_t SliceMatrixBytes(const ExpertShape& shape, int slice, int matrix);
// As FindNanScaleInSlice, of one matrix and its offset, for whoever has its
// bytes in a cache anyway.
ptrdiff_t FindNanScaleInMatrix(const ExpertShape& shape, int slice, int matrix,
                               const uint8_t* bytes);

}  // namespace deltafin
