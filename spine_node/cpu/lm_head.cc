#include "spine_node/cpu/lm_head.h"

#include <algorithm>

#include "common/base/status_macros.h"
#include "spine_node/cpu/attention_residual.h"
#include "spine_node/first_error.h"

namespace deltafin {

absl::StatusOr<std::unique_ptr<LmHead>> LmHead::Create(
    const LayerContext& context, const HeadWeights& weights) {
  auto head = std::unique_ptr<LmHead>(new LmHead(context, weights));
  ASSIGN_OR_RETURN(head->hidden_,
                   FloatRows::Allocate(kTokenGroup, context.spec.hidden_size));
  return head;
}

OperatorStatus LmHead::Forward(std::span<const FloatRows> snapshots,
                               const FloatRows& prefix,
                               std::span<const int> rows, float* logits) {
  const size_t vocabulary = weights_.lm_head.rows;
  while (!rows.empty()) {
    const auto group = rows.first(std::min<size_t>(kTokenGroup, rows.size()));
    RETURN_IF_OPERATOR_FAILED(MixRows(snapshots, prefix, group));
    OperatorStatus status = context_.linear.Run(
        {hidden_.row(0), hidden_.width(), static_cast<int>(group.size())},
        {{"lm_head", weights_.lm_head, logits, vocabulary}});
    if (!status.ok()) {
      status.row = group[status.row];
      return status;
    }
    rows = rows.subspan(group.size());
    logits += group.size() * vocabulary;
  }
  return {};
}

// Mixture and norm of the given rows into the first rows of hidden_.
OperatorStatus LmHead::MixRows(std::span<const FloatRows> snapshots,
                               const FloatRows& prefix,
                               std::span<const int> rows) {
  const ResidualSite site = {weights_.output_residual, weights_.norm,
                             "output_attn_res", "norm"};
  FirstError<OperatorStatus> error;
  ForEachRow(context_.threads, static_cast<int>(rows.size()), [&](int t) {
    OperatorStatus status = MixAndNormalize(
        context_, site, {snapshots, prefix, rows[t], 1}, hidden_.row(t));
    status.row = rows[t];
    error.Report(t, status);
  });
  return error.status();
}

}  // namespace deltafin
