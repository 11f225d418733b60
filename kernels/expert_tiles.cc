#include "kernels/expert_tiles.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/mxfp4.h"
#include "kernels/tile_order.h"

namespace deltafin {
namespace {

// Rows of the slice in gate or up.
template <typename Byte>
ReleasedPart<Byte> SliceRows(const ExpertShape& shape, Byte* packed,
                             Byte* scale, int slice) {
  const size_t packed_pitch = shape.latent_size / 2;
  const size_t scale_pitch = shape.latent_size / kMxfp4Group;
  const size_t row = size_t{kSliceColumns} * slice;
  return {packed + row * packed_pitch,
          scale + row * scale_pitch,
          packed_pitch,
          scale_pitch,
          shape.slice_columns(slice),
          shape.latent_size};
}

// Columns of the slice in down.
template <typename Byte>
ReleasedPart<Byte> SliceColumns(const ExpertShape& shape, Byte* packed,
                                Byte* scale, int slice) {
  const size_t column = size_t{kSliceColumns} * slice;
  return {packed + column / 2,
          scale + column / kMxfp4Group,
          static_cast<size_t>(shape.intermediate_size / 2),
          static_cast<size_t>(shape.intermediate_size / kMxfp4Group),
          shape.latent_size,
          shape.slice_columns(slice)};
}

// First 255 among `rows` rows of scales.
bool FindNan(const uint8_t* scale, int rows, int groups, NanScale* where) {
  const size_t size = static_cast<size_t>(rows) * groups;
  const void* hit = std::memchr(scale, 255, size);
  if (hit == nullptr) return false;
  const size_t at = static_cast<const uint8_t*>(hit) - scale;
  where->found = true;
  where->row = static_cast<int>(at / groups);
  where->group = static_cast<int>(at % groups);
  return true;
}

// Whether one of a full tile's scales is 255: without branches, so that it is
// compared sixteen at a time.
bool FullTileHasNan(const uint8_t* tile) {
  uint8_t any = 0;
  for (int i = 0; i < kTileScaleBytes; ++i) any |= tile[i] == 255;
  return any != 0;
}

struct MatrixShape {
  int rows = 0;
  int cols = 0;
};

MatrixShape ShapeInSlice(const ExpertShape& shape, int slice, int matrix) {
  const int columns = shape.slice_columns(slice);
  if (matrix == kSliceMatrices - 1) return {shape.latent_size, columns};
  return {columns, shape.latent_size};
}

// First scale byte 255 of a matrix in tile order, nullptr without one.
const uint8_t* FindNanInTiles(const uint8_t* tile, int rows, int cols) {
  const int num_groups = cols / kMxfp4Group;
  for (int block = 0; block < rows; block += kTileBlockRows) {
    const int block_rows = std::min(kTileBlockRows, rows - block);
    for (int group = 0; group < num_groups; group += kTileGroups) {
      const int groups = std::min(kTileGroups, num_groups - group);
      for (int row = 0; row < block_rows; row += kTileRows) {
        const int scales = std::min(kTileRows, block_rows - row) * groups;
        if (scales != kTileScaleBytes || FullTileHasNan(tile)) {
          const void* const found = std::memchr(tile, 255, scales);
          if (found != nullptr) return static_cast<const uint8_t*>(found);
        }
        tile += scales * kGroupRowBytes;
      }
    }
  }
  return nullptr;
}

}  // namespace

void PackSlices(const ExpertShape& shape, const ReleasedExpert& released,
                SliceRun run, uint8_t* out) {
  for (int s = run.first; s < run.first + run.count; ++s) {
    out = PackTiles(
        SliceRows(shape, released.gate_packed, released.gate_scale, s), out);
    out = PackTiles(SliceRows(shape, released.up_packed, released.up_scale, s),
                    out);
    out = PackTiles(
        SliceColumns(shape, released.down_packed, released.down_scale, s), out);
  }
}

void UnpackRecord(const ExpertShape& shape, const uint8_t* record,
                  const ReleasedExpertBuffers& released) {
  for (int s = 0; s < shape.num_slices(); ++s) {
    record = UnpackTiles(
        record, SliceRows(shape, released.gate_packed, released.gate_scale, s));
    record = UnpackTiles(
        record, SliceRows(shape, released.up_packed, released.up_scale, s));
    record = UnpackTiles(record, SliceColumns(shape, released.down_packed,
                                              released.down_scale, s));
  }
}

NanScale FindNanScale(const ExpertShape& shape,
                      const ReleasedExpert& released) {
  const int latent_groups = shape.latent_size / kMxfp4Group;
  const int intermediate_groups = shape.intermediate_size / kMxfp4Group;
  NanScale where;
  if (FindNan(released.gate_scale, shape.intermediate_size, latent_groups,
              &where)) {
    where.matrix = '1';
  } else if (FindNan(released.down_scale, shape.latent_size,
                     intermediate_groups, &where)) {
    where.matrix = '2';
  } else if (FindNan(released.up_scale, shape.intermediate_size, latent_groups,
                     &where)) {
    where.matrix = '3';
  }
  return where;
}

ptrdiff_t FindNanScaleInSlice(const ExpertShape& shape, int slice,
                              const uint8_t* bytes) {
  size_t offset = 0;
  for (int matrix = 0; matrix < kSliceMatrices; ++matrix) {
    const ptrdiff_t found =
        FindNanScaleInMatrix(shape, slice, matrix, bytes + offset);
    if (found >= 0) return static_cast<ptrdiff_t>(offset) + found;
    offset += SliceMatrixBytes(shape, slice, matrix);
  }
  return -1;
}

size_t SliceMatrixBytes(const ExpertShape& shape, int slice, int matrix) {
  const MatrixShape size = ShapeInSlice(shape, slice, matrix);
  return size_t{1} * size.rows * (size.cols / kMxfp4Group) * kGroupRowBytes;
}

ptrdiff_t FindNanScaleInMatrix(const ExpertShape& shape, int slice, int matrix,
                               const uint8_t* bytes) {
  const MatrixShape size = ShapeInSlice(shape, slice, matrix);
  const uint8_t* const found = FindNanInTiles(bytes, size.rows, size.cols);
  return found == nullptr ? -1 : found - bytes;
}

}  // namespace deltafin
