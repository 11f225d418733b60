// Section 3 of docs/numerics.md: tile order, slices and records.
#include "kernels/expert_tiles.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/unit/kernels/case_generator.h"
#include "tests/unit/kernels/expert_cases.h"
#include "tests/unit/kernels/expert_definition.h"

namespace deltafin {
namespace {

// [F, L]; the last is K3's. [768, 32] has L < 64, [160, 2080] ragged blocks.
constexpr ExpertShape kShapes[] = {
    {96, 32},   {64, 96},   {32, 256},   {96, 288}, {256, 512},
    {288, 544}, {96, 3072}, {2080, 160}, {32, 768}, {3584, 3072}};

void SizeTensors(ExpertCase* c) {
  const size_t values =
      size_t(c->shape.latent_size) * c->shape.intermediate_size;
  for (int i = 0; i < 6; ++i) {
    c->tensors[i].resize(i % 2 == 1 ? values / 32 : values / 2);
  }
}

ExpertCase RandomCase(ExpertShape shape) {
  XorShift64 random;
  ExpertCase c;
  c.shape = shape;
  SizeTensors(&c);
  for (auto& tensor : c.tensors) {
    for (uint8_t& b : tensor) b = static_cast<uint8_t>(random.Next());
  }
  return c;
}

std::vector<uint8_t> Record(const ExpertCase& c) {
  std::vector<uint8_t> record(c.shape.payload_bytes());
  PackSlices(c.shape, c.released(), {0, c.shape.num_slices()}, record.data());
  return record;
}

class ExpertRecordTest : public ::testing::TestWithParam<ExpertShape> {};

// Every byte names its source, one byte of its index at a time.
TEST_P(ExpertRecordTest, HoldsEveryReleasedByteAtOnePlace) {
  ExpertCase c;
  c.shape = GetParam();
  SizeTensors(&c);
  std::vector<uint32_t> source(c.shape.payload_bytes());
  for (int part = 0; part < 4; ++part) {
    uint32_t next = 0;
    for (auto& tensor : c.tensors) {
      for (uint8_t& b : tensor) b = static_cast<uint8_t>(next++ >> 8 * part);
    }
    ASSERT_EQ(next, source.size());
    const std::vector<uint8_t> record = Record(c);
    for (size_t i = 0; i < source.size(); ++i) {
      source[i] |= static_cast<uint32_t>(record[i]) << 8 * part;
    }
  }
  std::vector<bool> seen(source.size());
  for (const uint32_t at : source) {
    ASSERT_LT(at, seen.size());
    ASSERT_FALSE(seen[at]) << "released byte " << at << " lies at two places";
    seen[at] = true;
  }
}

TEST_P(ExpertRecordTest, HasItsSlicesInTheDefinedTileOrder) {
  const ExpertCase c = RandomCase(GetParam());
  const std::vector<uint8_t> record = Record(c);
  const int latent = c.shape.latent_size;
  for (int s = 0; s < c.shape.num_slices(); ++s) {
    const size_t row = size_t{256} * s;
    const int n = c.shape.slice_columns(s);
    for (const int m : {0, 1}) {
      const std::vector<uint8_t> want = DefineTiles(
          {c.tensors[2 * m].data() + row * latent / 2,
           c.tensors[2 * m + 1].data() + row * latent / 32, n, latent});
      ASSERT_EQ(want.size(), c.shape.slice_matrix_bytes(s));
      ASSERT_TRUE(std::equal(
          want.begin(), want.end(),
          record.begin() + c.shape.slice_offset(s) + m * want.size()))
          << "slice " << s << (m == 0 ? " gate" : " up");
    }
  }
}

TEST_P(ExpertRecordTest, IsTheJoinOfItsRunsAtAnyAlignment) {
  const ExpertCase c = RandomCase(GetParam());
  const std::vector<uint8_t> record = Record(c);
  const int slices = c.shape.num_slices();
  for (int first = 0; first < slices; first += 1 + slices / 3) {
    const int count = std::min(1 + slices / 3, slices - first);
    const size_t at = c.shape.slice_offset(first);
    const size_t size = c.shape.slice_offset(first + count) - at;
    std::vector<uint8_t> out(size + 2, 0xa5);
    PackSlices(c.shape, c.released(), {first, count}, out.data() + 1);
    EXPECT_TRUE(
        std::equal(out.begin() + 1, out.end() - 1, record.begin() + at));
    EXPECT_EQ(out.front(), 0xa5);
    EXPECT_EQ(out.back(), 0xa5);
  }
}

// Lines that are written whole may go past the caches.
TEST_P(ExpertRecordTest, IsTheSameOnCacheLinesAndBesideThem) {
  const ExpertCase c = RandomCase(GetParam());
  const std::vector<uint8_t> record = Record(c);
  for (const size_t skew : {0, 1, 16, 32}) {
    std::vector<uint8_t> memory(record.size() + 128, 0xa5);
    const size_t line = 64 - reinterpret_cast<uintptr_t>(memory.data()) % 64;
    uint8_t* const out = memory.data() + line + skew;
    PackSlices(c.shape, c.released(), {0, c.shape.num_slices()}, out);
    EXPECT_TRUE(std::equal(record.begin(), record.end(), out)) << skew;
    EXPECT_EQ(out[-1], 0xa5) << skew;
    EXPECT_EQ(out[record.size()], 0xa5) << skew;
  }
}

TEST_P(ExpertRecordTest, GivesTheReleasedBytesBack) {
  const ExpertCase c = RandomCase(GetParam());
  const std::vector<uint8_t> record = Record(c);
  ExpertCase back;
  back.shape = c.shape;
  SizeTensors(&back);
  UnpackRecord(
      c.shape, record.data(),
      {back.tensors[0].data(), back.tensors[1].data(), back.tensors[2].data(),
       back.tensors[3].data(), back.tensors[4].data(), back.tensors[5].data()});
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(back.tensors[i], c.tensors[i]) << "tensor " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, ExpertRecordTest, ::testing::ValuesIn(kShapes),
                         [](const auto& info) {
                           return std::to_string(info.param.intermediate_size) +
                                  "x" + std::to_string(info.param.latent_size);
                         });

TEST(ExpertShapeTest, GivesTheSizesOfTheFullModel) {
  const ExpertShape shape = {3584, 3072};
  EXPECT_EQ(shape.num_slices(), 12);
  EXPECT_EQ(shape.slice_offset(1), 1462272u);
  EXPECT_EQ(shape.slice_matrix_bytes(0), 119u * 4096);
  EXPECT_EQ(shape.payload_bytes(), 17547264u);
  EXPECT_EQ(shape.stride_bytes(), 17547264u);
  EXPECT_EQ(shape.slice_offset(12), 17547264u);
}

TEST(ExpertShapeTest, GivesTheSizesOfASmallModel) {
  const ExpertShape shape = {96, 32};
  EXPECT_EQ(shape.num_slices(), 1);
  EXPECT_EQ(shape.payload_bytes(), 4896u);
  EXPECT_EQ(shape.slice_matrix_bytes(0), 1632u);
  EXPECT_EQ(shape.stride_bytes(), 8192u);
}

class NanScaleTest : public ::testing::Test {
 protected:
  NanScaleTest() : c_(RandomCase({96, 288})) {
    for (int i = 1; i < 6; i += 2) {
      for (uint8_t& b : c_.tensors[i]) b = b == 255 ? 254 : b;
    }
  }
  NanScale Find() const { return FindNanScale(c_.shape, c_.released()); }
  ExpertCase c_;
};

TEST_F(NanScaleTest, FindsNoneAmongOrdinaryScales) {
  EXPECT_FALSE(Find().found);
}

TEST_F(NanScaleTest, NamesMatrixRowAndGroup) {
  c_.tensors[3][287 * 3 + 2] = 255;  // up, last byte
  NanScale where = Find();
  EXPECT_TRUE(where.found);
  EXPECT_EQ(where.matrix, '3');
  EXPECT_EQ(where.row, 287);
  EXPECT_EQ(where.group, 2);
  c_.tensors[5][95 * 9 + 1] = 255;  // down comes first
  where = Find();
  EXPECT_EQ(where.matrix, '2');
  EXPECT_EQ(where.row, 95);
  EXPECT_EQ(where.group, 1);
  c_.tensors[1][0] = 255;  // gate comes before both
  where = Find();
  EXPECT_EQ(where.matrix, '1');
  EXPECT_EQ(where.row, 0);
  EXPECT_EQ(where.group, 0);
}

// Two slices, the second of 32 columns: ragged tiles and half chunks.
TEST_F(NanScaleTest, IsFoundInTheSliceThatHoldsIt) {
  const ExpertShape shape = c_.shape;
  const auto offset_in = [&](int slice) {
    std::vector<uint8_t> bytes(shape.slice_offset(slice + 1) -
                               shape.slice_offset(slice));
    PackSlices(shape, c_.released(), {slice, 1}, bytes.data());
    const ptrdiff_t at = FindNanScaleInSlice(shape, slice, bytes.data());
    if (at >= 0) {
      EXPECT_EQ(bytes[at], 255);
    }
    return at;
  };
  for (int i = 0; i < 6; i += 2)
    c_.tensors[i].assign(c_.tensors[i].size(), 255);
  EXPECT_EQ(offset_in(0), -1);
  EXPECT_EQ(offset_in(1), -1);
  for (int i = 1; i < 6; i += 2) {
    const int groups = i == 5 ? 9 : 3;  // of a row; down has 288 columns
    for (size_t k = 0; k < c_.tensors[i].size(); ++k) {
      const uint8_t before = std::exchange(c_.tensors[i][k], 255);
      const int column_or_row = i == 5 ? k % groups * 32 : k / groups;
      const bool second = column_or_row >= kSliceColumns;
      EXPECT_EQ(offset_in(0) >= 0, !second) << i << " " << k;
      EXPECT_EQ(offset_in(1) >= 0, second) << i << " " << k;
      c_.tensors[i][k] = before;
    }
  }
}

}  // namespace
}  // namespace deltafin
