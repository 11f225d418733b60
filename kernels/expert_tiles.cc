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

// First scale byte 255 of a matrix in tile order, nullptr without one; `end`
// receives the matrix's end.
const uint8_t* FindNanInTiles(const uint8_t* tile, int rows, int cols,
                              const uint8_t** end) {
  const int num_groups = cols / kMxfp4Group;
  const uint8_t* found = nullptr;
  for (int block = 0; block < rows; block += kTileBlockRows) {
    const int block_rows = std::min(kTileBlockRows, rows - block);
    for (int group = 0; group < num_groups; group += kTileGroups) {
      const int groups = std::min(kTileGroups, num_groups - group);
      for (int row = 0; row < block_rows; row += kTileRows) {
        const int scales = std::min(kTileRows, block_rows - row) * groups;
        if (found == nullptr &&
            (scales != kTileScaleBytes || FullTileHasNan(tile))) {
          found = static_cast<const uint8_t*>(std::memchr(tile, 255, scales));
        }
        tile += scales * kGroupRowBytes;
      }
    }
  }
  *end = tile;
  return found;
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
  const int columns = shape.slice_columns(slice);
  const int latent = shape.latent_size;
  const uint8_t* matrix = bytes;
  for (const auto& [rows, cols] :
       {std::pair(columns, latent), std::pair(columns, latent),
        std::pair(latent, columns)}) {
    const uint8_t* end = nullptr;
    const uint8_t* found = FindNanInTiles(matrix, rows, cols, &end);
    if (found != nullptr) return found - bytes;
    matrix = end;
  }
  return -1;
}

}  // namespace deltafin
