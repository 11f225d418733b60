#include "spine_node/cpu/lm_head.h"

#include <algorithm>

#include "common/base/status_macros.h"
#include "spine_node/cpu/attention_residual.h"

namespace deltafin {

absl::StatusOr<LmHead> LmHead::Create(const LayerContext& context,
                                      const HeadWeights& weights) {
  LmHead head(context, weights);
  ASSIGN_OR_RETURN(head.hidden_,
                   FloatRows::Allocate(kTokenGroup, context.spec.hidden_size));
  return head;
}

OperatorStatus LmHead::Forward(std::span<const FloatRows> snapshots,
                               const FloatRows& prefix,
                               std::span<const int> rows, float* logits) {
  const ResidualSite site = {weights_->output_residual, weights_->norm,
                             "output_attn_res", "norm"};
  const size_t vocabulary = weights_->lm_head.rows;
  for (size_t first = 0; first < rows.size(); first += kTokenGroup) {
    const int n =
        static_cast<int>(std::min<size_t>(kTokenGroup, rows.size() - first));
    for (int t = 0; t < n; ++t) {
      OperatorStatus status =
          MixAndNormalize(*context_, site, snapshots, prefix, rows[first + t],
                          1, hidden_.row(t));
      status.row = rows[first + t];
      if (!status.ok()) return status;
    }
    OperatorStatus status =
        context_->linear.Run({hidden_.row(0), hidden_.width(), n},
                             {{"lm_head", weights_->lm_head,
                               logits + first * vocabulary, vocabulary}});
    if (!status.ok()) {
      status.row = rows[first + status.row];
      return status;
    }
  }
  return {};
}

}  // namespace deltafin
