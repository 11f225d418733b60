// Which experts should a node keep in RAM? Hit rates of replacement policies
// over the routes of a recorded text, decoded token by token.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "bench/recorded_routes.h"
#include "nlohmann/json.hpp"

namespace deltafin::bench {
namespace {

struct Options {
  std::string model = "deploy/models/k3-nano";
  std::string text = "deploy/models/k3-nano/eval/validation.txt";
  int window = 1024;
  int64_t max_tokens = 40000;
  std::vector<double> shares{0.05, 0.1, 0.2, 0.4, 0.6};
  bool json = false;
};

// One expert of one layer: layer * num_experts + expert.
using Unit = int32_t;

// All experts of one layer for one token are wanted at once, so none of them
// can make room for another.
struct Access {
  std::span<const Unit> units;
  int64_t index = 0;  // of the access
};

// What is kept longest has the highest score. It is told of each access before
// room is made and may score the units of that access only.
class Policy {
 public:
  virtual ~Policy() = default;
  virtual double Score(Unit unit, int64_t index) = 0;
};

class LeastRecentlyUsed : public Policy {
 public:
  double Score(Unit, int64_t index) override {
    return static_cast<double>(index);
  }
};

// Uses counted, each worth half after `half_life` accesses. On a scale that
// moves with time, so that what rests keeps its score: log2 of the sum of
// 2^(time of use / half_life).
class DecayingFrequency : public Policy {
 public:
  DecayingFrequency(int num_units, double half_life)
      : half_life_(half_life),
        heat_(num_units, -std::numeric_limits<double>::infinity()) {}

  double Score(Unit unit, int64_t index) override {
    const double now = static_cast<double>(index) / half_life_;
    double& heat = heat_[unit];
    heat = std::isinf(heat) ? now : now + std::log2(1 + std::exp2(heat - now));
    return heat;
  }

 private:
  const double half_life_;
  std::vector<double> heat_;
};

// The most used units of another text stay for good in a part of the room, the
// rest of it goes to the least recently used rule.
class PinnedByHeat : public Policy {
 public:
  PinnedByHeat(const std::vector<int64_t>& learned, size_t num_pinned)
      : pinned_(learned.size()) {
    std::vector<Unit> order(learned.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<Unit>(i);
    std::stable_sort(order.begin(), order.end(),
                     [&](Unit a, Unit b) { return learned[a] > learned[b]; });
    for (size_t i = 0; i < std::min(num_pinned, order.size()); ++i) {
      pinned_[order[i]] = true;
    }
  }

  double Score(Unit unit, int64_t index) override {
    return pinned_[unit] ? std::numeric_limits<double>::infinity()
                         : static_cast<double>(index);
  }

 private:
  std::vector<bool> pinned_;
};

// Knows the future: no rule can do better (where single units are replaced).
class Clairvoyant : public Policy {
 public:
  Clairvoyant(int num_units, const std::vector<Access>& accesses)
      : next_use_(num_units) {
    for (const Access& access : accesses) {
      for (const Unit unit : access.units) {
        next_use_[unit].push_back(access.index);
      }
    }
    for (auto& uses : next_use_) std::reverse(uses.begin(), uses.end());
  }

  double Score(Unit unit, int64_t index) override {
    std::vector<int64_t>& uses = next_use_[unit];
    while (!uses.empty() && uses.back() <= index) uses.pop_back();
    return uses.empty() ? -std::numeric_limits<double>::infinity()
                        : -static_cast<double>(uses.back());
  }

 private:
  std::vector<std::vector<int64_t>> next_use_;  // latest first
};

class SimulatedCache {
 public:
  SimulatedCache(size_t capacity, int num_units, Policy& policy)
      : capacity_(capacity), policy_(policy), score_(num_units, kAbsent) {}

  void Run(const Access& access) {
    for (const Unit unit : access.units) Use(unit, access.index);
    for (const Unit unit : access.units) {
      unpinned_.emplace(score_[unit], unit);
    }
  }

  int64_t hits() const { return hits_; }
  int64_t misses() const { return misses_; }
  void StartCounting() { hits_ = misses_ = 0; }

 private:
  static constexpr double kAbsent = std::numeric_limits<double>::quiet_NaN();

  void Use(Unit unit, int64_t index) {
    if (std::isnan(score_[unit])) {
      ++misses_;
      if (size_ == capacity_) {
        score_[unpinned_.begin()->second] = kAbsent;
        unpinned_.erase(unpinned_.begin());
      } else {
        ++size_;
      }
    } else {
      ++hits_;
      unpinned_.erase({score_[unit], unit});
    }
    score_[unit] = policy_.Score(unit, index);
  }

  const size_t capacity_;
  Policy& policy_;
  std::vector<double> score_;  // [units]
  std::set<std::pair<double, Unit>> unpinned_;
  size_t size_ = 0;
  int64_t hits_ = 0;
  int64_t misses_ = 0;
};

struct Study {
  RecordedRoutes routes;
  std::vector<Unit> units;  // as routes.experts
  std::vector<Access> accesses;
  size_t first_measured = 0;     // the second half of the text
  std::vector<int64_t> learned;  // uses of each unit in the first half

  int num_units() const { return routes.num_layers * routes.num_experts; }
};

Study Prepare(RecordedRoutes routes) {
  Study study;
  study.routes = std::move(routes);
  const RecordedRoutes& r = study.routes;
  study.units.resize(r.experts.size());
  for (size_t i = 0; i < r.experts.size(); ++i) {
    const int layer = static_cast<int>(i / r.top_k % r.num_layers);
    study.units[i] = layer * r.num_experts + r.experts[i];
  }
  const std::span<const Unit> units(study.units);
  for (size_t i = 0; i < units.size(); i += r.top_k) {
    study.accesses.push_back({units.subspan(i, r.top_k),
                              static_cast<int64_t>(study.accesses.size())});
  }
  study.first_measured = r.num_tokens() / 2 * r.num_layers;
  study.learned.assign(study.num_units(), 0);
  for (size_t i = 0; i < study.first_measured; ++i) {
    for (const Unit unit : study.accesses[i].units) ++study.learned[unit];
  }
  return study;
}

// Hit rate over the measured half; the other half warms the cache.
double HitRate(const Study& study, size_t capacity, Policy& policy) {
  SimulatedCache cache(capacity, study.num_units(), policy);
  for (const Access& access : study.accesses) {
    if (access.index == static_cast<int64_t>(study.first_measured)) {
      cache.StartCounting();
    }
    cache.Run(access);
  }
  return static_cast<double>(cache.hits()) /
         static_cast<double>(cache.hits() + cache.misses());
}

struct Row {
  std::string policy;
  std::vector<double> hit_rates;  // by share
};

std::vector<Row> Compare(const Study& study,
                         const std::vector<size_t>& capacities) {
  using Make = std::function<std::unique_ptr<Policy>(size_t capacity)>;
  std::vector<std::pair<std::string, Make>> policies;
  policies.emplace_back("least recently used", [](size_t) {
    return std::make_unique<LeastRecentlyUsed>();
  });
  for (const int tokens : {4, 16, 64, 256, 1024}) {
    policies.emplace_back(
        "frequency, half-life " + std::to_string(tokens) + " tokens",
        [&study, tokens](size_t) {
          return std::make_unique<DecayingFrequency>(
              study.num_units(),
              static_cast<double>(tokens) * study.routes.num_layers);
        });
  }
  for (const double part : {0.5, 0.8}) {
    policies.emplace_back(
        std::to_string(static_cast<int>(part * 100)) + " % pinned by heat",
        [&study, part](size_t capacity) {
          return std::make_unique<PinnedByHeat>(
              study.learned,
              static_cast<size_t>(part * static_cast<double>(capacity)));
        });
  }
  policies.emplace_back("knows the future", [&study](size_t) {
    return std::make_unique<Clairvoyant>(study.num_units(), study.accesses);
  });
  std::vector<Row> rows;
  for (const auto& [name, make] : policies) {
    Row row{name, {}};
    for (const size_t capacity : capacities) {
      row.hit_rates.push_back(HitRate(study, capacity, *make(capacity)));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

void Print(const Study& study, const Options& options,
           const std::vector<Row>& rows) {
  const RecordedRoutes& r = study.routes;
  const double token_bytes =
      static_cast<double>(r.num_layers) * r.top_k * r.expert_bytes;
  if (options.json) {
    nlohmann::json all = {{"model", options.model},
                          {"tokens", r.num_tokens()},
                          {"bytes_per_token_without_cache", token_bytes},
                          {"transferable_to_k3", false}};
    for (const Row& row : rows) {
      for (size_t i = 0; i < row.hit_rates.size(); ++i) {
        all["results"].push_back(
            {{"policy", row.policy},
             {"share", options.shares[i]},
             {"hit_rate", row.hit_rates[i]},
             {"bytes_per_token", token_bytes * (1 - row.hit_rates[i])}});
      }
    }
    std::puts(all.dump(2).c_str());
    return;
  }
  std::printf(
      "%lld tokens of %s, the second half measured; %.0f bytes of experts a "
      "token.\nHit rate and bytes a token, by the share of all experts that "
      "RAM holds. Routes of this\nmodel say nothing about K3's.\n\n%-32s",
      static_cast<long long>(r.num_tokens()), options.text.c_str(), token_bytes,
      "policy");
  for (const double share : options.shares) {
    std::printf("%16.0f %%", share * 100);
  }
  std::puts("");
  for (const Row& row : rows) {
    std::printf("%-32s", row.policy.c_str());
    for (const double rate : row.hit_rates) {
      std::printf("   %5.3f %9.0f", rate, token_bytes * (1 - rate));
    }
    std::puts("");
  }
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Hit rates of replacement policies over the routes of a recorded text, "
      "decoded token by token");
  Options options;
  app.add_option("--model", options.model, "Directory of the model");
  app.add_option("--text", options.text, "Text whose routes are recorded");
  app.add_option("--window", options.window, "Tokens of one context")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--max-tokens", options.max_tokens, "Tokens to record")
      ->check(CLI::Range(2, 1 << 30));
  app.add_option("--shares", options.shares,
                 "Shares of all experts that RAM holds")
      ->delimiter(',')
      ->check(CLI::Range(0.0, 1.0));
  app.add_flag("--json", options.json, "One JSON object instead of the table");
  CLI11_PARSE(app, argc, argv);
  auto routes = RecordRoutes(options.model, options.text, options.window,
                             options.max_tokens);
  if (!routes.ok()) {
    std::fprintf(stderr, "cache_study: %s\n",
                 std::string(routes.status().message()).c_str());
    return 1;
  }
  const Study study = Prepare(*std::move(routes));
  std::vector<size_t> capacities;
  for (const double share : options.shares) {
    capacities.push_back(std::max<size_t>(
        study.routes.top_k,
        static_cast<size_t>(std::llround(share * study.num_units()))));
  }
  Print(study, options, Compare(study, capacities));
  return 0;
}

}  // namespace
}  // namespace deltafin::bench

int main(int argc, char** argv) { return deltafin::bench::Main(argc, argv); }
