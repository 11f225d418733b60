#include "coordinator/engine/logprobs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace deltafin {
namespace {

double LogSumExp(std::span<const float> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float z : logits) sum += std::exp(z - largest);
  return largest + std::log(sum);
}

std::vector<int32_t> LargestIds(std::span<const float> logits, int count) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto end = ids.begin() + std::min<size_t>(count, ids.size());
  std::partial_sort(ids.begin(), end, ids.end(), [&](int32_t a, int32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  });
  ids.erase(end, ids.end());
  return ids;
}

}  // namespace

Logprobs ComputeLogprobs(std::span<const float> logits, int32_t id,
                         int num_top) {
  const double normalizer = LogSumExp(logits);
  Logprobs logprobs;
  logprobs.chosen = static_cast<float>(logits[id] - normalizer);
  if (num_top == 0) return logprobs;
  for (const int32_t top : LargestIds(logits, num_top)) {
    logprobs.top.push_back({top, static_cast<float>(logits[top] - normalizer)});
  }
  return logprobs;
}

}  // namespace deltafin
