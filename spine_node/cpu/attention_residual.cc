#include "spine_node/cpu/attention_residual.h"

#include <algorithm>
#include <vector>

#include "spine_node/first_error.h"

namespace deltafin {
namespace {

OperatorStatus MixRow(const LayerContext& context, const ResidualSite& site,
                      std::span<const FloatRows> snapshots,
                      const float* prefix_row, int row, float* out) {
  const int hidden = context.spec.hidden_size;
  if (snapshots.empty()) {
    std::copy_n(prefix_row, hidden, out);
    return {};
  }
  std::vector<const float*> candidates;
  candidates.reserve(snapshots.size() + 1);
  for (const FloatRows& snapshot : snapshots) {
    candidates.push_back(snapshot.row(row));
  }
  candidates.push_back(prefix_row);
  return {context.ops.attention_residual(
              candidates.data(), static_cast<int>(candidates.size()),
              site.residual, hidden, context.spec.rms_norm_eps, out),
          site.residual_name};
}

}  // namespace

OperatorStatus MixAndNormalize(const LayerContext& context,
                               const ResidualSite& site,
                               std::span<const FloatRows> snapshots,
                               const FloatRows& prefix, int first_row, int n,
                               float* out) {
  const int hidden = context.spec.hidden_size;
  FirstError<OperatorStatus> error;
  ForEachRow(context.threads, n, [&](int t) {
    const int row = first_row + t;
    float* out_row = out + size_t{1} * t * hidden;
    OperatorStatus status =
        MixRow(context, site, snapshots, prefix.row(row), row, out_row);
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
