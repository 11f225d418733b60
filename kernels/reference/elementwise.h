// kernels/reference/elementwise.h
//
// Scalar definitions of docs/numerics.md sections 6 and 7, which every other
// target must match to the bit. Re-entrant, no allocation.
#pragma once

#include "kernels/elementwise.h"
#include "kernels/expert_weights.h"

namespace deltafin::reference {

float Exp(float x);
float Sigmoid(float x);
float Tanh(float x);
// linear_beta 0: `up` as it is instead of linear_beta tanh(up / linear_beta).
float Situ(float gate, float up, SituParams params);

// The 32 lanes of `Sum`: element i goes to lane i % 32, missing elements of the
// last 32 are zeros, then the lanes are added as a tree.
class LaneSum {
 public:
  void Add(float v);
  void AddProduct(float a, float b);
  float Total();

 private:
  int num_elements_ = 0;
  float lanes_[32] = {};
};

// Softmax of one row of scores in place, unnormalised, in blocks of 256
// positions; returns 1 / d.
float Softmax(float* scores, int64_t n);

void KdaStep(const KdaStepArgs& args);
void Attention(const AttentionArgs& args);
KernelStatus AttentionResidual(const float* const* candidates, int n,
                               const float* nw, int hidden, float eps,
                               float* out);

}  // namespace deltafin::reference
