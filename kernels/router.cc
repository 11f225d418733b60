// Router of docs/numerics.md section 7.
#include <algorithm>

#include "kernels/elementwise.h"

namespace deltafin {
namespace {

// The top_k largest of choice, equal ones by lower index, in that order.
// Insertion keeps the list sorted; later experts must be strictly larger.
void SelectLargest(const float* choice, int num_experts, int top_k,
                   int32_t* ids) {
  int count = 0;
  for (int e = 0; e < num_experts; ++e) {
    if (count == top_k && !(choice[ids[count - 1]] < choice[e])) continue;
    int at = count < top_k ? count++ : top_k - 1;
    for (; at > 0 && choice[ids[at - 1]] < choice[e]; --at) {
      ids[at] = ids[at - 1];
    }
    ids[at] = e;
  }
}

}  // namespace

void RouteToken(const ElementwiseKernel& kernel, const float* z,
                const float* bias, int num_experts, int top_k, float scaling,
                float* scratch, int32_t* ids, float* weights) {
  float* scores = scratch;
  float* choice = scratch + num_experts;
  kernel.sigmoid(z, num_experts, scores);
  kernel.add(scores, bias, num_experts, choice);
  SelectLargest(choice, num_experts, top_k, ids);
  std::sort(ids, ids + top_k);
  float sum = 0;
  for (int i = 0; i < top_k; ++i) sum = sum + scores[ids[i]];
  const float denominator = sum + 1e-20f;
  for (int i = 0; i < top_k; ++i) {
    weights[i] = (scores[ids[i]] / denominator) * scaling;
  }
}

}  // namespace deltafin
