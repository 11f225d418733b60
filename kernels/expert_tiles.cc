#include "kernels/expert_tiles.h"

#include <algorithm>
#include <cstring>

#include "kernels/mxfp4.h"

namespace deltafin {
namespace {

// A rectangle of a released matrix that has its own tile order: all of the
// slice's gate or up rows, or its down columns. Byte is uint8_t, or const
// uint8_t where it is read.
template <typename Byte>
struct ReleasedPart {
  Byte* packed;         // of its first row and column
  Byte* scale;          //
  size_t packed_pitch;  // bytes from row to row
  size_t scale_pitch;
  int rows;
  int cols;
};

// One tile: `rows` rows from `packed` and `scale`, `groups` column groups.
struct TileShape {
  int rows;
  int groups;
};

using Vector4 = uint32_t __attribute__((vector_size(16)));

Vector4 Load4(const uint8_t* p) {
  Vector4 v;
  std::memcpy(&v, p, sizeof(v));
  return v;
}

void Store4(uint8_t* p, Vector4 v) { std::memcpy(p, &v, sizeof(v)); }

// Four rows of four dwords, `from` bytes apart, to their transpose, `to` bytes
// apart.
void Transpose4(const uint8_t* in, size_t from, uint8_t* out, size_t to) {
  const Vector4 a = Load4(in), b = Load4(in + from);
  const Vector4 c = Load4(in + 2 * from), d = Load4(in + 3 * from);
  const Vector4 ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const Vector4 ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Vector4 cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Vector4 cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  Store4(out, __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5));
  Store4(out + to, __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7));
  Store4(out + 2 * to, __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5));
  Store4(out + 3 * to, __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7));
}

// The dwords of a tile: released row r, octet q <-> octet q, row r.
void PackDwords(const uint8_t* packed, size_t pitch, TileShape shape,
                uint8_t* out) {
  const size_t octet_bytes = size_t{4} * shape.rows;
  int row = 0;
  for (; row + 4 <= shape.rows; row += 4) {
    for (int g = 0; g < shape.groups; ++g) {
      Transpose4(packed + row * pitch + g * 16, pitch,
                 out + g * 4 * octet_bytes + row * 4, octet_bytes);
    }
  }
  for (; row < shape.rows; ++row) {
    for (int q = 0; q < kOctetsPerGroup * shape.groups; ++q) {
      std::memcpy(out + q * octet_bytes + row * 4, packed + row * pitch + q * 4,
                  4);
    }
  }
}

void UnpackDwords(const uint8_t* tile, TileShape shape, uint8_t* packed,
                  size_t pitch) {
  const size_t octet_bytes = size_t{4} * shape.rows;
  int row = 0;
  for (; row + 4 <= shape.rows; row += 4) {
    for (int g = 0; g < shape.groups; ++g) {
      Transpose4(tile + g * 4 * octet_bytes + row * 4, octet_bytes,
                 packed + row * pitch + g * 16, pitch);
    }
  }
  for (; row < shape.rows; ++row) {
    for (int q = 0; q < kOctetsPerGroup * shape.groups; ++q) {
      std::memcpy(packed + row * pitch + q * 4,
                  tile + q * octet_bytes + row * 4, 4);
    }
  }
}

// Calls visit(row, group, shape) for every tile in tile order.
template <typename Visit>
void ForEachTile(int rows, int cols, const Visit& visit) {
  const int num_groups = cols / kMxfp4Group;
  for (int block = 0; block < rows; block += kTileBlockRows) {
    const int block_end = std::min(rows, block + kTileBlockRows);
    for (int group = 0; group < num_groups; group += kTileGroups) {
      for (int row = block; row < block_end; row += kTileRows) {
        visit(row, group,
              TileShape{std::min(kTileRows, block_end - row),
                        std::min(kTileGroups, num_groups - group)});
      }
    }
  }
}

// Writes a matrix in tile order and returns its end.
uint8_t* PackPart(const ReleasedPart<const uint8_t>& part, uint8_t* out) {
  ForEachTile(part.rows, part.cols, [&](int row, int group, TileShape tile) {
    for (int g = 0; g < tile.groups; ++g) {
      for (int r = 0; r < tile.rows; ++r) {
        *out++ = part.scale[(row + r) * part.scale_pitch + group + g];
      }
    }
    PackDwords(part.packed + row * part.packed_pitch + group * 16,
               part.packed_pitch, tile, out);
    out += tile.rows * tile.groups * 16;
  });
  return out;
}

// Reads a matrix in tile order and returns its end.
const uint8_t* UnpackPart(const uint8_t* in,
                          const ReleasedPart<uint8_t>& part) {
  ForEachTile(part.rows, part.cols, [&](int row, int group, TileShape tile) {
    for (int g = 0; g < tile.groups; ++g) {
      for (int r = 0; r < tile.rows; ++r) {
        part.scale[(row + r) * part.scale_pitch + group + g] = *in++;
      }
    }
    UnpackDwords(in, tile, part.packed + row * part.packed_pitch + group * 16,
                 part.packed_pitch);
    in += tile.rows * tile.groups * 16;
  });
  return in;
}

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

}  // namespace

void PackSlices(const ExpertShape& shape, const ReleasedExpert& released,
                SliceRun run, uint8_t* out) {
  for (int s = run.first; s < run.first + run.count; ++s) {
    out = PackPart(
        SliceRows(shape, released.gate_packed, released.gate_scale, s), out);
    out = PackPart(SliceRows(shape, released.up_packed, released.up_scale, s),
                   out);
    out = PackPart(
        SliceColumns(shape, released.down_packed, released.down_scale, s), out);
  }
}

void UnpackRecord(const ExpertShape& shape, const uint8_t* record,
                  const ReleasedExpertBuffers& released) {
  for (int s = 0; s < shape.num_slices(); ++s) {
    record = UnpackPart(
        record, SliceRows(shape, released.gate_packed, released.gate_scale, s));
    record = UnpackPart(
        record, SliceRows(shape, released.up_packed, released.up_scale, s));
    record = UnpackPart(record, SliceColumns(shape, released.down_packed,
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

}  // namespace deltafin
