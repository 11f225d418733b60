#include "kernels/tile_order.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/mxfp4.h"
#include "kernels/stream_copy.h"

namespace deltafin {
namespace {

constexpr int kGroupBytes = kMxfp4Group / 2;  // of nibbles, in a row
// Groups of a stripe: 64 bytes of nibbles, one cache line of a row, two tiles.
constexpr int kStripeGroups = 4;

// A tile's place in the matrix and in its row block.
struct TilePlace {
  int rows;
  int groups;
  size_t offset;
};

using Words = uint32_t __attribute__((vector_size(16)));
using Bytes = uint8_t __attribute__((vector_size(16)));

template <typename Vector>
Vector Load(const uint8_t* p) {
  Vector v;
  std::memcpy(&v, p, sizeof(v));
  return v;
}

template <typename Vector>
void Store(uint8_t* p, Vector v) {
  std::memcpy(p, &v, sizeof(v));
}

// Four rows of four dwords, `from` bytes apart, to their transpose, `to` bytes
// apart.
void Transpose4(const uint8_t* in, size_t from, uint8_t* out, size_t to) {
  const auto a = Load<Words>(in), b = Load<Words>(in + from);
  const auto c = Load<Words>(in + 2 * from), d = Load<Words>(in + 3 * from);
  const Words ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const Words ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Words cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Words cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  Store(out, __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5));
  Store(out + to, __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7));
  Store(out + 2 * to, __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5));
  Store(out + 3 * to, __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7));
}

// The dwords of a tile between row order (pitch bytes from row to row) and tile
// order. kPack: rows to tile.
template <bool kPack, typename Rows, typename Tile>
void MoveDwords(Rows* rows, size_t pitch, int num_rows, int groups,
                Tile* tile) {
  const size_t octet_bytes = size_t{4} * num_rows;
  int row = 0;
  for (; row + 4 <= num_rows; row += 4) {
    for (int g = 0; g < groups; ++g) {
      auto* in_rows = rows + row * pitch + g * kGroupBytes;
      auto* in_tile = tile + g * kOctetsPerGroup * octet_bytes + row * 4;
      if constexpr (kPack) {
        Transpose4(in_rows, pitch, in_tile, octet_bytes);
      } else {
        Transpose4(in_tile, octet_bytes, in_rows, pitch);
      }
    }
  }
  for (; row < num_rows; ++row) {
    for (int q = 0; q < kOctetsPerGroup * groups; ++q) {
      auto* in_rows = rows + row * pitch + q * 4;
      auto* in_tile = tile + q * octet_bytes + row * 4;
      if constexpr (kPack) {
        std::memcpy(in_tile, in_rows, 4);
      } else {
        std::memcpy(in_rows, in_tile, 4);
      }
    }
  }
}

Bytes EvenBytes(Bytes a, Bytes b) {
  return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20,
                                 22, 24, 26, 28, 30);
}
Bytes OddBytes(Bytes a, Bytes b) {
  return __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21,
                                 23, 25, 27, 29, 31);
}

// Scales of four groups of 16 rows, row-major, to out[g], 16 bytes each.
void TransposeScales(const uint8_t* scale, size_t pitch,
                     uint8_t* const out[kStripeGroups]) {
  Bytes rows[4];
  for (int i = 0; i < 4; ++i) {
    Words four;
    for (int r = 0; r < 4; ++r) {
      uint32_t word;
      std::memcpy(&word, scale + (4 * i + r) * pitch, sizeof(word));
      four[r] = word;
    }
    std::memcpy(&rows[i], &four, sizeof(four));
  }
  const Bytes even[2] = {EvenBytes(rows[0], rows[1]),
                         EvenBytes(rows[2], rows[3])};
  const Bytes odd[2] = {OddBytes(rows[0], rows[1]), OddBytes(rows[2], rows[3])};
  Store(out[0], EvenBytes(even[0], even[1]));
  Store(out[1], EvenBytes(odd[0], odd[1]));
  Store(out[2], OddBytes(even[0], even[1]));
  Store(out[3], OddBytes(odd[0], odd[1]));
}

// The two scale lines of a full stripe: 32 rows of four groups.
void PackStripeScales(const uint8_t* scale, size_t pitch, uint8_t* first,
                      uint8_t* second) {
  for (int row = 0; row < kTileRows; row += 16) {
    uint8_t* const out[kStripeGroups] = {first + row, first + kTileRows + row,
                                         second + row,
                                         second + kTileRows + row};
    TransposeScales(scale + row * pitch, pitch, out);
  }
}

template <bool kPack, typename Rows, typename Tile>
void MoveScales(Rows* scale, size_t pitch, const TilePlace& place, Tile* tile) {
  for (int g = 0; g < place.groups; ++g) {
    for (int r = 0; r < place.rows; ++r) {
      if constexpr (kPack) {
        *tile++ = scale[r * pitch + g];
      } else {
        scale[r * pitch + g] = *tile++;
      }
    }
  }
}

// The tile at this row and (even) group of a matrix.
TilePlace PlaceOf(int rows, int cols, int row, int group) {
  const int num_groups = cols / kMxfp4Group;
  const int block = row / kTileBlockRows * kTileBlockRows;
  const int block_rows = std::min(kTileBlockRows, rows - block);
  const int groups = std::min(kTileGroups, num_groups - group);
  const size_t group_rows = size_t(block) * num_groups +
                            size_t(block_rows) * group +
                            size_t(row - block) * groups;
  return {std::min(kTileRows, rows - row), groups, group_rows * kGroupRowBytes};
}

// Asks for the rows of a stripe. Their lines lie a pitch apart, which no
// hardware prefetcher follows.
template <typename Byte>
void PrefetchRows(const ReleasedPart<Byte>& part, int row, int group) {
  constexpr int kForWriting = std::is_const_v<Byte> ? 0 : 1;
  const int end = std::min(part.rows, row + kTileRows);
  for (; row < end; ++row) {
    __builtin_prefetch(
        part.packed + row * part.packed_pitch + group * kGroupBytes,
        kForWriting);
  }
}

// Asks for the tiles of a stripe.
template <typename Byte>
void PrefetchTiles(const ReleasedPart<Byte>& part, int row, int group,
                   const uint8_t* tiles) {
  const int end = std::min(part.cols / kMxfp4Group, group + kStripeGroups);
  for (; group < end; group += kTileGroups) {
    const TilePlace place = PlaceOf(part.rows, part.cols, row, group);
    for (int i = 0; i < place.rows * place.groups * kGroupRowBytes; i += 64) {
      __builtin_prefetch(tiles + place.offset + i);
    }
  }
}

// Calls visit(row, group) for every stripe of 32 rows and four groups, all
// stripes of the same rows in turn, while the memory of the next one is on its
// way.
template <typename Byte, typename TileByte, typename Visit>
void ForEachStripe(const ReleasedPart<Byte>& part, TileByte* tiles,
                   const Visit& visit) {
  const int num_groups = part.cols / kMxfp4Group;
  for (int row = 0; row < part.rows; row += kTileRows) {
    for (int group = 0; group < num_groups; group += kStripeGroups) {
      const bool last = group + kStripeGroups >= num_groups;
      const int next_row = last ? row + kTileRows : row;
      const int next_group = last ? 0 : group + kStripeGroups;
      if (next_row < part.rows) {
        PrefetchRows(part, next_row, next_group);
        if constexpr (std::is_const_v<TileByte>) {
          PrefetchTiles(part, next_row, next_group, tiles);
        }
      }
      visit(row, group);
    }
  }
}

void PackStripe(const ReleasedPart<const uint8_t>& part, int row, int group,
                uint8_t* out) {
  const int num_groups = part.cols / kMxfp4Group;
  const bool full =
      row + kTileRows <= part.rows && group + kStripeGroups <= num_groups;
  const uint8_t* scale = part.scale + row * part.scale_pitch + group;
  // The stripe's two tiles, whole, before they go to memory.
  alignas(64) uint8_t tiles[kStripeGroups / kTileGroups][kTileBytes];
  if (full) {
    PackStripeScales(scale, part.scale_pitch, tiles[0], tiles[1]);
  }
  const int end = std::min(num_groups, group + kStripeGroups);
  for (int g = group; g < end; g += kTileGroups) {
    const TilePlace place = PlaceOf(part.rows, part.cols, row, g);
    uint8_t* tile = tiles[(g - group) / kTileGroups];
    if (!full) {
      MoveScales<true>(scale + (g - group), part.scale_pitch, place, tile);
    }
    MoveDwords<true>(part.packed + row * part.packed_pitch + g * kGroupBytes,
                     part.packed_pitch, place.rows, place.groups,
                     tile + place.rows * place.groups);
    StreamCopy(out + place.offset, tile,
               size_t{kGroupRowBytes} * place.rows * place.groups);
  }
}

void UnpackStripe(const ReleasedPart<uint8_t>& part, int row, int group,
                  const uint8_t* in) {
  const int end = std::min(part.cols / kMxfp4Group, group + kStripeGroups);
  for (int g = group; g < end; g += kTileGroups) {
    const TilePlace place = PlaceOf(part.rows, part.cols, row, g);
    const uint8_t* tile = in + place.offset;
    MoveScales<false>(part.scale + row * part.scale_pitch + g, part.scale_pitch,
                      place, tile);
    MoveDwords<false>(part.packed + row * part.packed_pitch + g * kGroupBytes,
                      part.packed_pitch, place.rows, place.groups,
                      tile + place.rows * place.groups);
  }
}

template <typename Byte>
size_t PartBytes(const ReleasedPart<Byte>& part) {
  return size_t(part.rows) * (part.cols / kMxfp4Group) * kGroupRowBytes;
}

}  // namespace

uint8_t* PackTiles(const ReleasedPart<const uint8_t>& part, uint8_t* out) {
  ForEachStripe(part, out,
                [&](int row, int group) { PackStripe(part, row, group, out); });
  StreamFence();
  return out + PartBytes(part);
}

const uint8_t* UnpackTiles(const uint8_t* in,
                           const ReleasedPart<uint8_t>& part) {
  ForEachStripe(part, in, [&](int row, int group) {
    UnpackStripe(part, row, group, in);
  });
  return in + PartBytes(part);
}

}  // namespace deltafin
