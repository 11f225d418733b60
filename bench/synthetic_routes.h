// bench/synthetic_routes.h
//
// Routes that nobody's model made: experts drawn with a stated skew, and
// predictions of them with a stated recall. Thread-compatible.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace deltafin::bench {

struct SyntheticRouteOptions {
  int num_layers = 0;
  int num_experts = 0;
  int top_k = 0;
  // Of an expert of rank r, from 1: r^-zipf. Ranks differ from layer to layer.
  double zipf = 0;
  // How probable it is that an expert that is used was predicted.
  double recall = 0;
};

struct SyntheticRoute {
  std::vector<int> wanted;     // [top_k], all different
  std::vector<int> predicted;  // [top_k], all different, in no order
};

class SyntheticRoutes {
 public:
  SyntheticRoutes(const SyntheticRouteOptions& options, uint64_t seed);

  // The next token's, by layer.
  std::vector<SyntheticRoute> NextToken();

 private:
  int Draw(int layer);
  SyntheticRoute Next(int layer);

  const SyntheticRouteOptions options_;
  std::mt19937_64 random_;
  std::vector<double> cumulated_;                 // [num_experts], by rank
  std::vector<std::vector<int>> expert_of_rank_;  // [layer][rank]
};

}  // namespace deltafin::bench
