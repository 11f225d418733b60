#include "spine_node/cpu/attention_residual.h"

#include <algorithm>
#include <vector>

#include "spine_node/first_error.h"

namespace deltafin {
namespace {

OperatorStatus MixRow(const LayerContext& context, const ResidualSite& site,
                      const ResidualRows& rows, int row, float* out) {
  const int hidden = context.spec.hidden_size;
  const float* prefix = rows.prefix.row(row);
  if (rows.snapshots.empty()) {
    std::copy_n(prefix, hidden, out);
    return {};
  }
  std::vector<const float*> candidates;
  candidates.reserve(rows.snapshots.size() + 1);
  for (const FloatRows& snapshot : rows.snapshots) {
    candidates.push_back(snapshot.row(row));
  }
  candidates.push_back(prefix);
  return {context.ops.attention_residual(
              candidates.data(), static_cast<int>(candidates.size()),
              site.residual, hidden, context.spec.rms_norm_eps, out),
          site.residual_name};
}

}  // namespace

OperatorStatus MixAndNormalize(const LayerContext& context,
                               const ResidualSite& site,
                               const ResidualRows& rows, float* out) {
  const int hidden = context.spec.hidden_size;
  FirstError<OperatorStatus> error;
  ForEachRow(context.threads, rows.num_rows, [&](int t) {
    float* out_row = out + size_t{1} * t * hidden;
    OperatorStatus status =
        MixRow(context, site, rows, rows.first_row + t, out_row);
    if (status.ok()) {
      status = {context.ops.rms_norm(out_row, site.norm, hidden,
                                     context.spec.rms_norm_eps, out_row),
                site.norm_name};
    }
    status.row = t;
    error.Report(t, status);
  });
  return error.status();
}

}  // namespace deltafin
