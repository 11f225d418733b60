#include "bench/synthetic_routes.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace deltafin::bench {
namespace {

bool Has(const std::vector<int>& experts, int expert) {
  return std::find(experts.begin(), experts.end(), expert) != experts.end();
}

}  // namespace

SyntheticRoutes::SyntheticRoutes(const SyntheticRouteOptions& options,
                                 uint64_t seed)
    : options_(options), random_(seed) {
  double sum = 0;
  for (int rank = 1; rank <= options_.num_experts; ++rank) {
    sum += std::pow(rank, -options_.zipf);
    cumulated_.push_back(sum);
  }
  for (int layer = 0; layer < options_.num_layers; ++layer) {
    std::vector<int>& experts = expert_of_rank_.emplace_back();
    experts.resize(options_.num_experts);
    std::iota(experts.begin(), experts.end(), 0);
    std::shuffle(experts.begin(), experts.end(), random_);
  }
}

int SyntheticRoutes::Draw(int layer) {
  std::uniform_real_distribution<double> uniform(0, cumulated_.back());
  const auto rank =
      std::upper_bound(cumulated_.begin(), cumulated_.end(), uniform(random_));
  const auto last = cumulated_.end() - 1;
  return expert_of_rank_[layer][std::min(rank, last) - cumulated_.begin()];
}

SyntheticRoute SyntheticRoutes::Next(int layer) {
  SyntheticRoute route;
  const auto top_k = static_cast<size_t>(options_.top_k);
  while (route.wanted.size() < top_k) {
    const int expert = Draw(layer);
    if (!Has(route.wanted, expert)) route.wanted.push_back(expert);
  }
  std::bernoulli_distribution is_named(options_.recall);
  for (const int expert : route.wanted) {
    if (is_named(random_)) route.predicted.push_back(expert);
  }
  while (route.predicted.size() < top_k) {
    const int expert = Draw(layer);
    if (!Has(route.wanted, expert) && !Has(route.predicted, expert)) {
      route.predicted.push_back(expert);
    }
  }
  std::shuffle(route.predicted.begin(), route.predicted.end(), random_);
  return route;
}

std::vector<SyntheticRoute> SyntheticRoutes::NextToken() {
  std::vector<SyntheticRoute> token;
  for (int layer = 0; layer < options_.num_layers; ++layer) {
    token.push_back(Next(layer));
  }
  return token;
}

}  // namespace deltafin::bench
