#include "tests/unit/kernels/matvec_cases.h"

#include <bit>
#include <cmath>
#include <cstdlib>

#include "tests/unit/kernels/expert_definition.h"

namespace deltafin {
namespace {

enum Kind {
  kOrdinary,
  kLargestSums,       // all |w| = 6
  kAllPositive,       // S = 2,147,483,520 at x = 0x3faaaaaa, and above
  kAnyExponent,       // scale bytes at both ends, subnormals
  kUnequalGroups,     // any scale byte
  kSmallScales,       //
  kTopAndBottom,      // f32 max beside subnormals
  kZerosAndOutliers,  // zero groups, -0
  kTies,              //
  kNegativeZeroCodes,
  kNumKinds
};
constexpr const char* kKindNames[kNumKinds] = {
    "ordinary",       "largest sums",    "all positive",   "any exponent",
    "unequal groups", "small scales",    "top and bottom", "zeros and outliers",
    "ties",           "codes 0, 1, 8, 9"};

// At x = 4/3 rounded down, 32 products with w = 6 are 2,147,483,520.
const float kLargestBelowCarry = std::bit_cast<float>(0x3faaaaaau);
const float kSmallestCarry = std::bit_cast<float>(0x3faaaaabu);

uint8_t NibblePair(int kind, XorShift64& random) {
  switch (kind) {
    case kLargestSums:
      return random.Coin() ? 0x77 : 0xff;
    case kAllPositive:
      return 0x77;
    case kNegativeZeroCodes:
      return static_cast<uint8_t>((random.Next() & 0x88) | 1);
    default:
      return static_cast<uint8_t>(random.Next());
  }
}

uint8_t ScaleByte(int kind, XorShift64& random) {
  static constexpr uint8_t kEnds[] = {0,   1,   2,  3,  252, 253, 254,
                                      127, 128, 21, 22, 23,  104, 150};
  switch (kind) {
    case kAnyExponent:
    case kTopAndBottom:
      return kEnds[random.Below(14)];
    case kUnequalGroups:
      return static_cast<uint8_t>(random.Below(255));
    case kSmallScales:
      return static_cast<uint8_t>(random.Below(12));
    default:
      return static_cast<uint8_t>(115 + random.Below(8));
  }
}

// Value i of the case; i counts over tokens.
double Activation(int kind, size_t i, int cols, XorShift64& random) {
  const double u = static_cast<double>(random.Mantissa()) * 0x1p-52 - 1;
  const size_t token = i / cols;
  const size_t group = i / 32;
  switch (kind) {
    case kLargestSums: {
      const double sign = random.Coin() ? 1 : -1;
      return sign * (token % 2 == 1 ? 1.9999999 : kLargestBelowCarry);
    }
    case kAllPositive:
      return token % 3 == 2   ? kSmallestCarry
             : token % 3 == 1 ? 1.99999988
                              : double{kLargestBelowCarry};
    case kAnyExponent:
    case kSmallScales:
      return std::ldexp(u, random.Below(270) - 146);
    case kUnequalGroups:
      return std::ldexp(u, static_cast<int>(group * 37 % 254) - 126);
    case kTopAndBottom:
      return std::ldexp(u, random.Coin() ? 127 : -140);
    case kZerosAndOutliers:
      return group % 3 == 0 ? 0 : i % 32 == 5 ? u * 50 : u;
    case kTies: {
      const int quarter = random.Below(65) - 32;
      const int shift = random.Below(24);
      return std::ldexp(quarter * 0.25, -shift);
    }
    default:
      return u * 3;
  }
}

void FillActivations(int kind, XorShift64& random, MatvecCase& c) {
  for (size_t i = 0; i < c.x.size(); ++i) {
    c.x[i] = static_cast<float>(Activation(kind, i, c.cols, random));
    if (kind == kTopAndBottom && i % 97 == 0) {
      c.x[i] = random.Coin() ? 0x1.fffffep127f : -0x1p-149f;
    }
    if (kind == kZerosAndOutliers && random.Below(5) == 0) c.x[i] = -0.0f;
  }
}

void Resize(MatvecCase& c) {
  c.packed.resize(size_t(c.rows) * c.cols / 2);
  c.scale.resize(size_t(c.rows) * c.cols / 32);
  c.x.resize(size_t(c.num_tokens) * c.cols);
  c.y.resize(size_t(c.num_tokens) * c.rows);
}

// Fills tiles and y from the definition.
void Define(MatvecCase& c, Digest& digest) {
  const ReleasedMatrix m = {c.packed.data(), c.scale.data(), c.rows, c.cols};
  c.tiles = DefineTiles(m);
  for (int t = 0; t < c.num_tokens; ++t) {
    QuantizedRow x;
    if (!DefineQuantized(&c.x[size_t(t) * c.cols], c.cols, &x)) std::abort();
    float* y = &c.y[size_t(t) * c.rows];
    DefineProduct(m, x, 0, y);
    for (int r = 0; r < c.rows; ++r) {
      const uint32_t bits =
          std::isfinite(y[r]) ? std::bit_cast<uint32_t>(y[r]) : 0x7f800000u;
      digest.Add(&bits, sizeof(bits));
    }
    digest.Add(x.x.data(), x.x.size() * sizeof(int32_t));
    digest.Add(x.exponent.data(), x.exponent.size() * sizeof(int));
  }
}

}  // namespace

std::vector<MatvecCase> MakeSmallMatvecCases(XorShift64* random,
                                             Digest* digest) {
  static constexpr int kShapes[][2] = {
      {32, 96},  {96, 32},   {32, 32},   {1, 32},    {31, 64},   {33, 96},
      {256, 64}, {257, 160}, {288, 128}, {511, 224}, {64, 3584}, {40, 3072}};
  std::vector<MatvecCase> cases;
  for (const auto& shape : kShapes) {
    for (int kind = 0; kind < kNumKinds; ++kind) {
      MatvecCase c = {kKindNames[kind],
                      shape[0],
                      shape[1],
                      1 + random->Below(9),
                      {},
                      {},
                      {},
                      {},
                      {}};
      if (kind == kOrdinary) c.num_tokens = 9;
      Resize(c);
      for (uint8_t& b : c.packed) b = NibblePair(kind, *random);
      for (uint8_t& b : c.scale) b = ScaleByte(kind, *random);
      FillActivations(kind, *random, c);
      Define(c, *digest);
      cases.push_back(std::move(c));
    }
  }
  return cases;
}

std::vector<MatvecCase> MakeLargeMatvecCases(XorShift64* random,
                                             Digest* digest) {
  std::vector<MatvecCase> cases;
  for (const int num_tokens : {1, 9}) {
    for (const bool down : {false, true}) {
      MatvecCase c = {"real shape",
                      down ? 3584 : 3072,
                      down ? 3072 : 3584,
                      num_tokens,
                      {},
                      {},
                      {},
                      {},
                      {}};
      Resize(c);
      for (uint8_t& b : c.packed) b = NibblePair(kOrdinary, *random);
      for (uint8_t& b : c.scale) b = ScaleByte(kOrdinary, *random);
      for (float& v : c.x) {
        v = static_cast<float>(random->Mantissa()) / 0x1p51f - 2;
        if (random->Below(128) == 0) v *= 15;
      }
      Define(c, *digest);
      cases.push_back(std::move(c));
    }
  }
  return cases;
}

}  // namespace deltafin
