// tests/unit/kernels/expert_cases.h
//
// Released experts with the fixed-point sums of all their slices by definition.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/expert_tiles.h"
#include "tests/unit/kernels/case_generator.h"

namespace deltafin {

struct ExpertCase {
  ExpertShape shape;
  int num_tokens = 0;
  std::vector<uint8_t> tensors[6];  // as ReleasedExpert, in its order
  std::vector<float> x;             // [T, L]
  std::vector<float> weights;       // [T]
  std::vector<int64_t> sums;        // [T, L] by definition
  std::vector<bool> ok;             // [T] false: an error by definition

  ReleasedExpert released() const;
};

// How the values of a case are drawn.
enum class ExpertKind { kOrdinary, kAnyScale, kNearLimit, kSmallTokens };

// Draws tensors, tokens and weights for c.shape and c.num_tokens.
void FillExpertCase(ExpertKind kind, XorShift64* random, ExpertCase* c);

// Nine shapes in all four kinds. `digest` takes every expected sum and error.
std::vector<ExpertCase> MakeSmallExpertCases(XorShift64* random,
                                             Digest* digest);
// One expert of the full model's size with three tokens. `random` and `digest`
// as the small cases left them.
ExpertCase MakeFullSizeExpertCase(XorShift64* random, Digest* digest);

}  // namespace deltafin
