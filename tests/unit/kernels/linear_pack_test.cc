// Tile order of spine matrices (docs/numerics.md sections 4 and 5): every value
// at its place, padding zero, blocks independent.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "tests/unit/kernels/linear_definition.h"

namespace deltafin {
namespace {

struct Shape {
  int rows;
  int cols;
};

constexpr Shape kShapes[] = {{1, 1},     {31, 63},   {32, 64},   {33, 65},
                             {256, 128}, {257, 129}, {288, 200}, {520, 320}};

// The value of element (row, col) by the text: the place is spelled out anew
// here. col may lie in the padding.
template <typename Value>
Value TileValue(const std::vector<uint32_t>& tiles, int rows, int cols, int row,
                int col, int chunk) {
  constexpr int kPerDword = 4 / sizeof(Value);
  const int block = row / 256;
  const int tiles_of_block = (std::min(256, rows - 256 * block) + 31) / 32;
  const int chunks = (cols + chunk - 1) / chunk;
  const size_t tile_bytes = size_t{32} * chunk * sizeof(Value);
  const size_t block_begin = size_t{8} * chunks * tile_bytes * block;
  const size_t tile =
      size_t(col / chunk) * tiles_of_block + size_t(row % 256 / 32);
  const size_t dword = size_t(col % chunk / kPerDword) * 32 + row % 32;
  Value value;
  std::memcpy(&value,
              reinterpret_cast<const uint8_t*>(tiles.data()) + block_begin +
                  tile * tile_bytes + dword * 4 +
                  col % kPerDword * sizeof(Value),
              sizeof(value));
  return value;
}

template <typename Value>
std::vector<Value> RandomValues(size_t n) {
  XorShift64 random;
  std::vector<Value> values(n);
  for (Value& v : values) {
    const uint64_t bits = random.Next();
    std::memcpy(&v, &bits, sizeof(v));
  }
  return values;
}

// Packs block by block, last block first, into a buffer with guards.
template <typename Value>
std::vector<uint32_t> Pack(WeightFormat format,
                           const std::vector<Value>& values, Shape shape,
                           void (*pack)(const Value*, int, int, void*)) {
  constexpr uint32_t kGuard = 0xdeadbeef;
  const size_t dwords = LinearTileBytes(format, shape.rows, shape.cols) / 4;
  std::vector<uint32_t> tiles(dwords + 1, kGuard);
  for (int block = (shape.rows - 1) / 256; block >= 0; --block) {
    pack(&values[size_t(block) * 256 * shape.cols],
         std::min(256, shape.rows - 256 * block), shape.cols,
         reinterpret_cast<uint8_t*>(tiles.data()) +
             LinearBlockOffset(format, shape.rows, shape.cols, block));
  }
  EXPECT_EQ(tiles[dwords], kGuard);
  tiles.resize(dwords);
  return tiles;
}

template <typename Value>
void ExpectEveryValueInPlace(WeightFormat format, int chunk, int bias,
                             void (*pack)(const Value*, int, int, void*)) {
  for (const Shape& s : kShapes) {
    const auto values = RandomValues<Value>(size_t(s.rows) * s.cols);
    const auto tiles = Pack(format, values, s, pack);
    const int padded_rows = (s.rows + 31) / 32 * 32;
    const int padded_cols = (s.cols + chunk - 1) / chunk * chunk;
    ASSERT_EQ(tiles.size() * 4,
              size_t(padded_rows) * padded_cols * sizeof(Value));
    for (int row = 0; row < padded_rows; ++row) {
      for (int col = 0; col < padded_cols; ++col) {
        const bool inside = row < s.rows && col < s.cols;
        Value want =
            inside ? values[size_t(row) * s.cols + col] : static_cast<Value>(0);
        if (bias != 0) want = static_cast<Value>(int(want) + bias);
        const Value got =
            TileValue<Value>(tiles, s.rows, s.cols, row, col, chunk);
        ASSERT_EQ(std::memcmp(&got, &want, sizeof(Value)), 0)
            << s.rows << " x " << s.cols << " at " << row << ", " << col;
      }
    }
  }
}

TEST(LinearPackTest, PutsEveryBf16ValueInItsPlaceAndZerosElsewhere) {
  ExpectEveryValueInPlace<uint16_t>(WeightFormat::kBf16, 64, 0, PackBf16Block);
}

TEST(LinearPackTest, PutsEveryF32ValueInItsPlaceAndZerosElsewhere) {
  ExpectEveryValueInPlace<float>(WeightFormat::kF32, 64, 0, PackF32Block);
}

TEST(LinearPackTest, StoresInt8CodesPlus128) {
  ExpectEveryValueInPlace<int8_t>(WeightFormat::kInt8, 128, 128, PackInt8Block);
}

TEST(LinearPackTest, SaysTheSizesOfTheModelsMatrices) {
  EXPECT_EQ(LinearTileBytes(WeightFormat::kBf16, 12288, 7168),
            size_t{12288} * 7168 * 2);
  EXPECT_EQ(LinearTileBytes(WeightFormat::kInt8, 7168, 12288),
            size_t{12288} * 7168);
  EXPECT_EQ(LinearTileBytes(WeightFormat::kBf16, 163840, 7168),
            size_t{163840} * 7168 * 2);
  EXPECT_EQ(LinearTileBytes(WeightFormat::kF32, 0, 64), 0u);
}

}  // namespace
}  // namespace deltafin
