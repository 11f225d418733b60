#include "coordinator/cli/loss.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace deltafin {
namespace {

constexpr int kTop = 5;

double Ratio(double part, double whole) {
  return whole == 0 ? 0 : part / whole;
}

}  // namespace

double NegativeLogLikelihood(std::span<const float> logits, int32_t id) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - top);
  return (top - logits[id]) + std::log(sum);
}

std::vector<int32_t> TopIds(std::span<const float> logits, int count) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const size_t kept = std::min<size_t>(count, ids.size());
  std::partial_sort(ids.begin(), ids.begin() + kept, ids.end(),
                    [logits](int32_t a, int32_t b) {
                      return logits[a] != logits[b] ? logits[a] > logits[b]
                                                    : a < b;
                    });
  ids.resize(kept);
  return ids;
}

void LossMeter::Add(double nll, int64_t text_bytes) {
  ++tokens_;
  sum_nll_ += nll;
  text_bytes_ += text_bytes;
}

double LossMeter::mean_nll() const {
  return Ratio(sum_nll_, static_cast<double>(tokens_));
}

double LossMeter::bits_per_byte() const {
  return Ratio(sum_nll_ / std::log(2.0), static_cast<double>(text_bytes_));
}

void AgreementMeter::Add(std::span<const float> logits,
                         std::span<const float> against) {
  const std::vector<int32_t> ours = TopIds(logits, kTop);
  const std::vector<int32_t> theirs = TopIds(against, kTop);
  ++rows_;
  same_top1_ += ours[0] == theirs[0] ? 1 : 0;
  for (const int32_t id : ours) {
    common_top5_ += std::count(theirs.begin(), theirs.end(), id);
  }
  logits_ += static_cast<int64_t>(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    const double shift = std::abs(double{logits[i]} - double{against[i]});
    sum_shift_ += shift;
    max_shift_ = std::max(max_shift_, shift);
  }
}

double AgreementMeter::top1() const {
  return Ratio(static_cast<double>(same_top1_), static_cast<double>(rows_));
}

double AgreementMeter::top5() const {
  return Ratio(static_cast<double>(common_top5_),
               static_cast<double>(rows_ * kTop));
}

double AgreementMeter::mean_shift() const {
  return Ratio(sum_shift_, static_cast<double>(logits_));
}

}  // namespace deltafin
