// The KDA recurrence of docs/numerics.md section 7.
#include <cmath>

#include "kernels/reference/elementwise.h"

namespace deltafin::reference {

void KdaStep(const KdaStepArgs& args) {
  const int dim = args.dim;
  for (int d = 0; d < dim; ++d) {
    float* column = args.state + d;  // S[i][d] is column[i * dim]
    float p = 0;
    for (int i = 0; i < dim; ++i) {
      float& s = column[static_cast<size_t>(i) * dim];
      s = args.decay[i] * s;
      p = std::fma(args.k[i], s, p);
    }
    const float u = args.beta * (args.v[d] - p);
    float o = 0;
    for (int i = 0; i < dim; ++i) {
      float& s = column[static_cast<size_t>(i) * dim];
      s = std::fma(args.k[i], u, s);
      o = std::fma(args.q[i], s, o);
    }
    args.out[d] = o;
  }
}

}  // namespace deltafin::reference
