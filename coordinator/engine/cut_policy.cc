#include "coordinator/engine/cut_policy.h"

#include <algorithm>

namespace deltafin {
namespace {

class EvenCut : public CutPolicy {
 public:
  EvenCut(int num_nodes, int num_slices)
      : num_nodes_(num_nodes),
        share_(num_slices / num_nodes),
        num_larger_(num_slices % num_nodes) {}

  void Cut(ExpertKey key, std::vector<NodeRun>* runs) const override {
    runs->clear();
    const int num_runs = share_ > 0 ? num_nodes_ : num_larger_;
    const int first_node = FirstNode(key);
    int first = 0;
    for (int run = 0; run < num_runs; ++run) {
      const int count = share_ + (run < num_larger_ ? 1 : 0);
      runs->push_back({(first_node + run) % num_nodes_, {first, count}});
      first += count;
    }
  }

 private:
  // The larger shares of one expert begin where those of the one before end.
  int FirstNode(ExpertKey key) const {
    const int64_t stride = std::max(num_larger_, 1);
    return static_cast<int>((key.expert * stride + key.layer) % num_nodes_);
  }

  const int num_nodes_;
  const int share_;       // slices of every node
  const int num_larger_;  // nodes that get one more
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
  RandomCut(int num_nodes, int num_slices, uint64_t seed)
      : num_nodes_(num_nodes), num_slices_(num_slices), seed_(seed) {}

  void Cut(ExpertKey key, std::vector<NodeRun>* runs) const override {
    runs->clear();
    uint64_t state = seed_ ^ (uint64_t(key.layer) << 32 | uint64_t(key.expert));
    state = SplitMix64(&state);
    for (int first = 0; first < num_slices_;) {
      const int left = num_slices_ - first;
      const int count = 1 + static_cast<int>(SplitMix64(&state) % left);
      const int node = static_cast<int>(SplitMix64(&state) % num_nodes_);
      runs->push_back({node, {first, count}});
      first += count;
    }
  }

 private:
  const int num_nodes_;
  const int num_slices_;
  const uint64_t seed_;
};

}  // namespace

std::unique_ptr<CutPolicy> NewEvenCut(int num_nodes, int num_slices) {
  return std::make_unique<EvenCut>(num_nodes, num_slices);
}

std::unique_ptr<CutPolicy> NewRandomCut(int num_nodes, int num_slices,
                                        uint64_t seed) {
  return std::make_unique<RandomCut>(num_nodes, num_slices, seed);
}

}  // namespace deltafin
