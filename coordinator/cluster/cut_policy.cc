#include "coordinator/cluster/cut_policy.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "common/base/check.h"

namespace deltafin {
namespace {

// The fractional parts of its multiples are spread evenly over [0, 1) however
// many are taken: the golden ratio. Source: Weyl (1916).
constexpr double kGolden = 0.6180339887498949;

// The same for pairs; layers must not repeat each other's sequence.
constexpr double kLayerStep = 0.7548776662466927;

// Shares such as 3 of 12 are whole but for their last bit.
constexpr double kRounding = 1e-9;

double PhaseOf(ExpertKey key) {
  const double turns = key.expert * kGolden + key.layer * kLayerStep;
  return std::min(turns - std::floor(turns), 1 - 2 * kRounding);
}

// Ends of the nodes' shares of 1, ascending; the last is 1 exactly.
std::vector<double> ShareEnds(std::span<const double> weights) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  CHECK(total > 0 && std::isfinite(total));
  std::vector<double> ends;
  double sum = 0;
  for (const double weight : weights) {
    DCHECK(weight >= 0);
    ends.push_back((sum += weight) / total);
  }
  // So that nodes without weight after the last one with weight get nothing.
  const double last = ends.back();
  for (double& end : ends) {
    if (end == last) end = 1;
  }
  return ends;
}

// One systematic sample for each expert: the ends of the shares, in slices, are
// moved by the expert's phase and rounded down. A node's number of slices is
// the whole number below or above its share, and on average its share.
class ProportionalCut : public CutPolicy {
 public:
  ProportionalCut(std::span<const double> weights, int num_slices)
      : ends_(ShareEnds(weights)), num_slices_(num_slices) {}

  void Cut(ExpertKey key, std::vector<NodeRun>* runs) const override {
    runs->clear();
    const double phase = PhaseOf(key);
    int first = 0;
    for (size_t node = 0; node < ends_.size(); ++node) {
      const int end = ends_[node] == 1 ? num_slices_ : EndOf(node, phase);
      if (end > first) {
        runs->push_back({static_cast<int>(node), {first, end - first}});
        first = end;
      }
    }
  }

 private:
  int EndOf(size_t node, double phase) const {
    const double end = ends_[node] * num_slices_ + phase + kRounding;
    return std::min(static_cast<int>(end), num_slices_);
  }

  const std::vector<double> ends_;
  const int num_slices_;
};

class WholeExperts : public CutPolicy {
 public:
  WholeExperts(std::span<const double> weights, int num_slices)
      : ends_(ShareEnds(weights)), num_slices_(num_slices) {}

  void Cut(ExpertKey key, std::vector<NodeRun>* runs) const override {
    const auto node =
        std::upper_bound(ends_.begin(), ends_.end(), PhaseOf(key));
    *runs = {{static_cast<int>(node - ends_.begin()), {0, num_slices_}}};
  }

 private:
  const std::vector<double> ends_;
  const int num_slices_;
};

// One output of the SplitMix64 generator. Source: Steele, Lea, Flood, "Fast
// splittable pseudorandom number generators" (2014).
uint64_t SplitMix64(uint64_t* state) {
  uint64_t z = *state += 0x9E3779B97F4A7C15;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
  z = (z ^ z >> 27) * 0x94D049BB133111EB;
  return z ^ z >> 31;
}

class RandomCut : public CutPolicy {
 public:
  RandomCut(std::span<const double> weights, int num_slices, uint64_t seed)
      : num_slices_(num_slices), seed_(seed) {
    for (size_t node = 0; node < weights.size(); ++node) {
      if (weights[node] > 0) nodes_.push_back(static_cast<int>(node));
    }
    CHECK(!nodes_.empty());
  }

  void Cut(ExpertKey key, std::vector<NodeRun>* runs) const override {
    runs->clear();
    uint64_t state = seed_ ^ (uint64_t(key.layer) << 32 | uint64_t(key.expert));
    state = SplitMix64(&state);
    for (int first = 0; first < num_slices_;) {
      const int left = num_slices_ - first;
      const int count = 1 + static_cast<int>(SplitMix64(&state) % left);
      runs->push_back(
          {nodes_[SplitMix64(&state) % nodes_.size()], {first, count}});
      first += count;
    }
  }

 private:
  std::vector<int> nodes_;
  const int num_slices_;
  const uint64_t seed_;
};

}  // namespace

std::unique_ptr<CutPolicy> NewProportionalCut(std::span<const double> weights,
                                              int num_slices) {
  return std::make_unique<ProportionalCut>(weights, num_slices);
}

std::unique_ptr<CutPolicy> NewWholeExperts(std::span<const double> weights,
                                           int num_slices) {
  return std::make_unique<WholeExperts>(weights, num_slices);
}

std::unique_ptr<CutPolicy> NewRandomCut(std::span<const double> weights,
                                        int num_slices, uint64_t seed) {
  return std::make_unique<RandomCut>(weights, num_slices, seed);
}

}  // namespace deltafin
