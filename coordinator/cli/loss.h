// coordinator/cli/loss.h
//
// How well logits predict a token, and how far two spines' logits lie apart.
// Pure; f64 throughout, outside the numerics contract.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace deltafin {

// -log softmax(logits)[id] in nats. REQUIRES: id within the row.
double NegativeLogLikelihood(std::span<const float> logits, int32_t id);

// The `count` largest, descending, ties to the lower id.
std::vector<int32_t> TopIds(std::span<const float> logits, int count);

// Mean loss over predicted tokens.
class LossMeter {
 public:
  // One predicted token and the bytes of text it stands for.
  void Add(double nll, int64_t text_bytes);

  int64_t tokens() const { return tokens_; }
  double mean_nll() const;       // nats a token
  double bits_per_byte() const;  // 0 when no bytes were predicted

 private:
  int64_t tokens_ = 0;
  int64_t text_bytes_ = 0;
  double sum_nll_ = 0;
};

// How two rows of logits for the same position agree, over many rows.
class AgreementMeter {
 public:
  // REQUIRES: equal sizes, at least 5.
  void Add(std::span<const float> logits, std::span<const float> against);

  int64_t rows() const { return rows_; }
  double top1() const;  // share of rows with the same likeliest token
  double top5() const;  // mean share of common tokens among the five likeliest
  double mean_shift() const;  // mean |difference| of a logit
  double max_shift() const { return max_shift_; }

 private:
  int64_t rows_ = 0;
  int64_t same_top1_ = 0;
  int64_t common_top5_ = 0;
  int64_t logits_ = 0;
  double sum_shift_ = 0;
  double max_shift_ = 0;
};

}  // namespace deltafin
