#include "tests/unit/kernels/expert_cases.h"

#include <cmath>
#include <cstdlib>

#include "tests/unit/kernels/expert_definition.h"

namespace deltafin {
namespace {

constexpr int kDownScale = 5;  // index among the tensors

uint8_t ScaleByte(ExpertKind kind, XorShift64& random) {
  switch (kind) {
    case ExpertKind::kAnyScale:
      return static_cast<uint8_t>(random.Below(140));
    case ExpertKind::kNearLimit:
      return static_cast<uint8_t>(120 + random.Below(8));
    default:
      return static_cast<uint8_t>(115 + random.Below(8));
  }
}

void FillTensors(ExpertKind kind, XorShift64& random, ExpertCase& c) {
  const size_t values = size_t(c.shape.latent_size) * c.shape.intermediate_size;
  for (int i = 0; i < 6; ++i) {
    const bool scales = i % 2 == 1;
    c.tensors[i].resize(scales ? values / 32 : values / 2);
    for (uint8_t& b : c.tensors[i]) {
      b = scales ? ScaleByte(kind, random)
                 : static_cast<uint8_t>(random.Next());
    }
  }
  if (kind == ExpertKind::kNearLimit) {  // sums near and beyond 2^15
    for (uint8_t& b : c.tensors[kDownScale]) {
      b = static_cast<uint8_t>(136 + random.Below(4));
    }
  }
}

void FillTokens(ExpertKind kind, XorShift64& random, ExpertCase& c) {
  c.x.resize(size_t(c.num_tokens) * c.shape.latent_size);
  for (float& v : c.x) {
    v = static_cast<float>(static_cast<double>(random.Mantissa()) * 0x1p-51 -
                           2);
    if (random.Below(128) == 0) v *= 15;
    if (kind == ExpertKind::kSmallTokens) {
      v = static_cast<float>(std::ldexp(v, -random.Below(60)));
    }
  }
  c.weights.resize(c.num_tokens);
  for (float& w : c.weights) {
    w = static_cast<float>((random.Next() >> 40) + 1) * 0x1p-24f *
        (kind == ExpertKind::kNearLimit ? 1.0f : 0.2f);
  }
}

// Fills sums and ok from the definition.
void Define(ExpertCase& c, Digest& digest) {
  const int latent = c.shape.latent_size;
  c.sums.assign(size_t(c.num_tokens) * latent, 0);
  c.ok.resize(c.num_tokens);
  for (int t = 0; t < c.num_tokens; ++t) {
    QuantizedRow x;
    if (!DefineQuantized(&c.x[size_t(t) * latent], latent, &x)) std::abort();
    int64_t* sums = &c.sums[size_t(t) * latent];
    c.ok[t] = DefineSlices(c.shape, SituParams{}, c.released(),
                           {0, c.shape.num_slices()}, x, c.weights[t], sums);
    digest.AddNumber(c.ok[t]);
    for (int r = 0; c.ok[t] && r < latent; ++r) digest.AddNumber(sums[r]);
  }
}

}  // namespace

ReleasedExpert ExpertCase::released() const {
  return {tensors[0].data(), tensors[1].data(), tensors[2].data(),
          tensors[3].data(), tensors[4].data(), tensors[5].data()};
}

void FillExpertCase(ExpertKind kind, XorShift64* random, ExpertCase* c) {
  FillTensors(kind, *random, *c);
  FillTokens(kind, *random, *c);
}

std::vector<ExpertCase> MakeSmallExpertCases(XorShift64* random,
                                             Digest* digest) {
  static constexpr int kShapes[][2] = {{32, 96},   {96, 64},   {64, 96},
                                       {256, 32},  {288, 96},  {512, 256},
                                       {544, 288}, {3072, 96}, {3072, 64}};
  std::vector<ExpertCase> cases;
  for (const auto& [inner, latent] : kShapes) {
    for (const ExpertKind kind :
         {ExpertKind::kOrdinary, ExpertKind::kAnyScale, ExpertKind::kNearLimit,
          ExpertKind::kSmallTokens}) {
      ExpertCase c;
      c.shape = {latent, inner};
      c.num_tokens = 1 + random->Below(9);
      if (kind == ExpertKind::kOrdinary) c.num_tokens = 9;
      FillExpertCase(kind, random, &c);
      Define(c, *digest);
      cases.push_back(std::move(c));
    }
  }
  return cases;
}

ExpertCase MakeFullSizeExpertCase(XorShift64* random, Digest* digest) {
  ExpertCase c;
  c.shape = {3584, 3072};
  c.num_tokens = 3;
  FillExpertCase(ExpertKind::kOrdinary, random, &c);
  Define(c, *digest);
  return c;
}

}  // namespace deltafin
