// Sections 6 and 8 of docs/numerics.md: every target against the scalar
// functions of the reference, for every length of a vector's rest.
#include <gtest/gtest.h>

#include <functional>

#include "kernels/reference/reference_tables.h"
#include "tests/unit/kernels/kernel_target_test.h"
#include "tests/unit/kernels/linear_values.h"

namespace deltafin {
namespace {

// Equal on x86-64 and ARM.
constexpr uint64_t kDigest = 0x3b89720be46a35b2;

constexpr const ElementwiseKernel& kReference = kReferenceElementwiseKernel;

// Lengths that leave every rest of 4, 8, 16 and 32 lanes.
std::vector<int> Lengths() {
  std::vector<int> lengths = {96, 127, 1000};
  for (int n = 0; n <= 67; ++n) lengths.push_back(n);
  return lengths;
}

// One value to one value, called as f(kernel, x, n, y).
using Map =
    std::function<void(const ElementwiseKernel&, const float*, int, float*)>;

struct NamedMap {
  const char* name;
  Map map;
};

const std::vector<NamedMap>& Maps() {
  static const std::vector<NamedMap> maps = {
      {"exp", [](const ElementwiseKernel& k, const float* x, int n,
                 float* y) { k.exp(x, n, y); }},
      {"sigmoid", [](const ElementwiseKernel& k, const float* x, int n,
                     float* y) { k.sigmoid(x, n, y); }},
      {"silu", [](const ElementwiseKernel& k, const float* x, int n,
                  float* y) { k.silu(x, n, y); }},
  };
  return maps;
}

class ElementwiseTest : public KernelTargetTest {
 protected:
  const ElementwiseKernel& kernel() const { return target_->elementwise; }
  XorShift64 random_;
};

TEST_P(ElementwiseTest, MapsEveryLengthToTheDefinedBits) {
  for (const NamedMap& m : Maps()) {
    for (const int n : Lengths()) {
      const auto x = RandomFloats(&random_, n, {100, 134});
      // One more value guards the end.
      std::vector<float> got(n + 1, 7.0f), want(n + 1, 7.0f);
      m.map(kernel(), x.data(), n, got.data());
      m.map(kReference, x.data(), n, want.data());
      ASSERT_TRUE(SameFloats(got, want)) << m.name << " n " << n;
    }
  }
}

TEST_P(ElementwiseTest, MapsSpecialValuesToTheDefinedBits) {
  const auto x = SpecialFloats();
  const int n = static_cast<int>(x.size());
  for (const NamedMap& m : Maps()) {
    std::vector<float> got(n), want(n);
    m.map(kernel(), x.data(), n, got.data());
    m.map(kReference, x.data(), n, want.data());
    ASSERT_TRUE(SameFloats(got, want)) << m.name;
  }
}

TEST_P(ElementwiseTest, MapsInPlace) {
  for (const NamedMap& m : Maps()) {
    auto x = RandomFloats(&random_, 83);
    std::vector<float> want(x.size());
    m.map(kReference, x.data(), 83, want.data());
    m.map(kernel(), x.data(), 83, x.data());
    ASSERT_TRUE(SameFloats(x, want)) << m.name;
  }
}

TEST_P(ElementwiseTest, SituGivesTheDefinedBitsForAnyBetas) {
  for (const SituParams p :
       {SituParams{}, SituParams{3.0f, 7.0f}, SituParams{4.0f, 0.0f}}) {
    for (const int n : Lengths()) {
      const auto gate = RandomFloats(&random_, n, {110, 136});
      const auto up = RandomFloats(&random_, n, {110, 140});
      std::vector<float> got(n + 1, 7.0f), want(n + 1, 7.0f);
      kernel().situ(gate.data(), up.data(), n, p, got.data());
      kReference.situ(gate.data(), up.data(), n, p, want.data());
      ASSERT_TRUE(SameFloats(got, want)) << "n " << n;
    }
  }
}

TEST_P(ElementwiseTest, SituOfSpecialValuesGivesTheDefinedBits) {
  const auto special = SpecialFloats();
  const int n = static_cast<int>(special.size());
  for (const float up : special) {
    for (const SituParams p : {SituParams{}, SituParams{4.0f, 0.0f}}) {
      const std::vector<float> ups(n, up);
      std::vector<float> got(n), want(n);
      kernel().situ(special.data(), ups.data(), n, p, got.data());
      kReference.situ(special.data(), ups.data(), n, p, want.data());
      ASSERT_TRUE(SameFloats(got, want)) << "up " << up;
    }
  }
}

TEST_P(ElementwiseTest, NormsGiveTheDefinedBits) {
  for (const int n : Lengths()) {
    if (n == 0) continue;
    for (const FloatRange range : {kOrdinary, kTiny, FloatRange{60, 187}}) {
      const auto x = RandomFloats(&random_, n, range);
      const auto w = RandomFloats(&random_, n);
      std::vector<float> got(n + 1, 7.0f), want(n + 1, 7.0f);
      EXPECT_EQ(kernel().rms_norm(x.data(), w.data(), n, 1e-5f, got.data()),
                kReference.rms_norm(x.data(), w.data(), n, 1e-5f, want.data()));
      ASSERT_TRUE(SameFloats(got, want)) << "rms_norm n " << n;
      EXPECT_EQ(kernel().l2_norm(x.data(), n, 1e-6f, 0.088f, got.data()),
                kReference.l2_norm(x.data(), n, 1e-6f, 0.088f, want.data()));
      ASSERT_TRUE(SameFloats(got, want)) << "l2_norm n " << n;
    }
  }
}

TEST_P(ElementwiseTest, NormsRefuseASumOfSquaresThatIsNotFinite) {
  for (const int n : {1, 31, 64, 100}) {
    for (const float bad : {INFINITY, -INFINITY, NAN, 0x1p64f, -0x1p100f}) {
      for (const int at : {0, n / 2, n - 1}) {
        std::vector<float> x(n, 1.0f), w(n, 1.0f), y(n);
        x[at] = bad;
        EXPECT_EQ(kernel().rms_norm(x.data(), w.data(), n, 1e-5f, y.data()),
                  KernelStatus::kNotFinite);
        EXPECT_EQ(kernel().l2_norm(x.data(), n, 1e-6f, 1.0f, y.data()),
                  KernelStatus::kNotFinite);
      }
    }
  }
}

TEST_P(ElementwiseTest, AddsAndMultipliesToTheDefinedBits) {
  for (const int n : Lengths()) {
    const auto a = RandomFloats(&random_, n, kAnyFinite);
    const auto b = RandomFloats(&random_, n, kAnyFinite);
    std::vector<float> got(n + 1, 7.0f), want(n + 1, 7.0f);
    kernel().add(a.data(), b.data(), n, got.data());
    kReference.add(a.data(), b.data(), n, want.data());
    ASSERT_TRUE(SameFloats(got, want)) << "add n " << n;
    kernel().multiply(a.data(), b.data(), n, got.data());
    kReference.multiply(a.data(), b.data(), n, want.data());
    ASSERT_TRUE(SameFloats(got, want)) << "multiply n " << n;
  }
}

TEST_P(ElementwiseTest, DotProductsAddLanesInTheDefinedOrder) {
  for (const int n : Lengths()) {
    for (const FloatRange range : {kOrdinary, kTiny, FloatRange{50, 190}}) {
      const auto a = RandomFloats(&random_, n, range);
      const auto b = RandomFloats(&random_, n, range);
      ASSERT_TRUE(SameBits(kernel().dot_lanes(a.data(), b.data(), n),
                           kReference.dot_lanes(a.data(), b.data(), n)))
          << "n " << n;
    }
  }
}

TEST_P(ElementwiseTest, ShortConvolutionGivesTheDefinedBits) {
  for (const int n : Lengths()) {
    const auto taps = RandomFloats(&random_, size_t{4} * n);
    const auto u = RandomFloats(&random_, size_t{4} * n);
    const float* at = u.data();
    std::vector<float> got(n + 1, 7.0f), want(n + 1, 7.0f);
    kernel().short_conv(taps.data(), at, at + n, at + 2 * n, at + 3 * n, n,
                        got.data());
    kReference.short_conv(taps.data(), at, at + n, at + 2 * n, at + 3 * n, n,
                          want.data());
    ASSERT_TRUE(SameFloats(got, want)) << "n " << n;
  }
}

TEST_P(ElementwiseTest, KdaDecayGivesTheDefinedBits) {
  for (const int n : Lengths()) {
    const auto r = RandomFloats(&random_, n);
    const auto dt = RandomFloats(&random_, n);
    std::vector<float> got(n + 1, 7.0f), want(n + 1, 7.0f);
    kernel().kda_decay(r.data(), dt.data(), n, 1.75f, -5.0f, got.data());
    kReference.kda_decay(r.data(), dt.data(), n, 1.75f, -5.0f, want.data());
    ASSERT_TRUE(SameFloats(got, want)) << "n " << n;
  }
}

TEST_P(ElementwiseTest, ReadsFixedPointSumsWithOneRounding) {
  std::vector<int64_t> sums = {0,
                               1,
                               -1,
                               int64_t{1} << 40,
                               (int64_t{1} << 24) + 1,
                               (int64_t{1} << 24) + 3,
                               -((int64_t{1} << 24) + 1),
                               (int64_t{1} << 53) + (int64_t{1} << 29) + 1,
                               INT64_MAX,
                               INT64_MIN};
  const std::vector<float> want_first = {
      0.0f,      0x1p-40f,       -0x1p-40f, 1.0f,    0x1p-16f, 0x1.000004p-16f,
      -0x1p-16f, 0x1.000002p13f, 0x1p23f,   -0x1p23f};
  for (int i = 0; i < 1000; ++i) {
    sums.push_back(static_cast<int64_t>(random_.Next()) >> random_.Below(60));
  }
  for (size_t n = 0; n <= sums.size(); n = n < 40 ? n + 1 : n * 2 - 3) {
    std::vector<float> got(n + 1, 7.0f), want(n + 1, 7.0f);
    kernel().from_fixed(sums.data(), static_cast<int>(n), got.data());
    kReference.from_fixed(sums.data(), static_cast<int>(n), want.data());
    ASSERT_TRUE(SameFloats(got, want)) << "n " << n;
  }
  std::vector<float> got(want_first.size());
  kernel().from_fixed(sums.data(), static_cast<int>(got.size()), got.data());
  EXPECT_TRUE(SameFloats(got, want_first));
}

TEST_P(ElementwiseTest, AddsFixedPointSums) {
  for (const int n : {0, 1, 7, 8, 33}) {
    std::vector<int64_t> a(n + 1), b(n + 1), want(n + 1);
    for (int i = 0; i <= n; ++i) {
      a[i] = static_cast<int64_t>(random_.Next()) >> 2;
      b[i] = static_cast<int64_t>(random_.Next()) >> 2;
      want[i] = i < n ? a[i] + b[i] : a[i];
    }
    kernel().add_fixed(b.data(), n, a.data());
    EXPECT_EQ(a, want);
  }
}

DELTAFIN_FOR_EACH_TARGET(ElementwiseTest);

TEST(ElementwiseDefinitionTest, GivesTheStoredDigestOnEveryMachine) {
  SetContractFloatingPointMode();
  XorShift64 random;
  Digest digest;
  const auto add = [&](const std::vector<float>& y) {
    digest.Add(y.data(), y.size() * sizeof(float));
  };
  const int n = 2001;
  const auto x = RandomFloats(&random, n, {90, 135});
  const auto u = RandomFloats(&random, n, {90, 135});
  std::vector<float> y(n);
  for (const NamedMap& m : Maps()) {
    m.map(kReference, x.data(), n, y.data());
    add(y);
  }
  kReference.situ(x.data(), u.data(), n, {}, y.data());
  add(y);
  kReference.rms_norm(x.data(), u.data(), n, 1e-5f, y.data());
  add(y);
  kReference.l2_norm(x.data(), n, 1e-6f, 0.5f, y.data());
  add(y);
  kReference.kda_decay(x.data(), u.data(), n, 0.75f, -5.0f, y.data());
  add(y);
  add({kReference.dot_lanes(x.data(), u.data(), n)});
  EXPECT_EQ(digest.value(), kDigest) << std::hex << digest.value();
}

}  // namespace
}  // namespace deltafin
