#include "coordinator/cli/eval_windows.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace deltafin {
namespace {

absl::Status EvaluateWindow(const std::vector<int32_t>& ids,
                            Generation& generation, const RowCallback& on_row) {
  absl::Status row_status;
  GenerationCallbacks callbacks;
  callbacks.on_logits = [&](int64_t position, std::span<const float> logits) {
    if (row_status.ok()) row_status = on_row(ids[position + 1], logits);
  };
  GenerationRequest request;
  request.prompt_ids = ids;
  request.want_all_logits = true;
  const absl::Status run_status =
      generation.Run(std::move(request), {}, std::move(callbacks)).status();
  RETURN_IF_ERROR(row_status);
  return run_status;
}

}  // namespace

Windows CutWindows(std::span<const int32_t> ids, int32_t bos, int window,
                   int max_windows) {
  Windows windows;
  const size_t size = static_cast<size_t>(window) - 1;
  while (!ids.empty() && (max_windows == 0 ||
                          windows.size() < static_cast<size_t>(max_windows))) {
    const std::span<const int32_t> part = ids.first(std::min(size, ids.size()));
    windows.push_back({bos});
    windows.back().insert(windows.back().end(), part.begin(), part.end());
    ids = ids.subspan(part.size());
  }
  return windows;
}

absl::Status EvaluateWindows(const Windows& windows, Generation& generation,
                             const RowCallback& on_row) {
  for (size_t i = 0; i < windows.size(); ++i) {
    RETURN_IF_ERROR(AddContext(EvaluateWindow(windows[i], generation, on_row),
                               absl::StrCat("window ", i)));
  }
  return absl::OkStatus();
}

}  // namespace deltafin
