#include "coordinator/engine/expert_prediction.h"

#include <algorithm>

#include "coordinator/engine/layer_assignment.h"

namespace deltafin {
namespace {

// One output of the SplitMix64 generator. Source: Steele, Lea, Flood, "Fast
// splittable pseudorandom number generators" (2014).
uint64_t SplitMix64(uint64_t* state) {
  uint64_t z = *state += 0x9E3779B97F4A7C15;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
  z = (z ^ z >> 27) * 0x94D049BB133111EB;
  return z ^ z >> 31;
}

double Uniform(uint64_t* state) {
  return static_cast<double>(SplitMix64(state) >> 11) * 0x1p-53;
}

// One layer's work by node.
struct Load {
  explicit Load(size_t num_nodes) : slices(num_nodes), misses(num_nodes) {}
  std::vector<int> slices;
  std::vector<int> misses;
};

std::vector<NodeFitness> FitnessOf(const Placement& placement,
                                   const RouteModel& routes,
                                   std::span<const NodeSpeed> speeds) {
  std::vector<NodeFitness> nodes;
  for (int slot = 0; slot < placement.num_slots(); ++slot) {
    const NodeSpeed& speed = speeds[slot];
    const double read = (1 - speed.resident) / speed.read_rate;
    const double per_byte = std::max(read, 1 / speed.kernel_rate);
    nodes.push_back({placement.member(slot).can_work(),
                     true,
                     {speed.latency, per_byte * routes.slice_bytes}});
  }
  return nodes;
}

Load DrawLoad(const LayerAssignment& assignment,
              std::span<const int32_t> experts,
              std::span<const NodeSpeed> speeds, uint64_t* state) {
  Load load(speeds.size());
  for (const int32_t expert : experts) {
    for (const NodeRun& run : assignment.runs(expert)) {
      load.slices[run.node] += run.slices.count;
      for (int i = 0; i < run.slices.count; ++i) {
        if (Uniform(state) >= speeds[run.node].resident) {
          ++load.misses[run.node];
        }
      }
    }
  }
  return load;
}

// Reading and computing overlap, but for the last slice.
double SecondsOf(const NodeSpeed& speed, int slices, int misses,
                 int64_t slice_bytes) {
  if (slices == 0) return 0;
  const double read = misses * slice_bytes / speed.read_rate;
  const double compute = slices * slice_bytes / speed.kernel_rate;
  const double tail = misses > 0 ? slice_bytes / speed.kernel_rate : 0;
  return speed.latency + std::max(read + tail, compute);
}

}  // namespace

void DrawExperts(const RouteModel& routes, uint64_t* state,
                 std::vector<int32_t>* experts) {
  experts->clear();
  while (experts->size() < static_cast<size_t>(routes.top_k)) {
    const auto expert = static_cast<int32_t>(
        SplitMix64(state) % static_cast<uint64_t>(routes.num_experts));
    if (std::find(experts->begin(), experts->end(), expert) == experts->end()) {
      experts->push_back(expert);
    }
  }
  std::sort(experts->begin(), experts->end());
}

ExpertPrediction PredictExperts(const Placement& placement,
                                const RouteModel& routes,
                                std::span<const NodeSpeed> speeds,
                                int num_layers, uint64_t seed) {
  const std::vector<NodeFitness> nodes = FitnessOf(placement, routes, speeds);
  const size_t num_nodes = nodes.size();
  ExpertPrediction sum;
  sum.share.resize(num_nodes);
  sum.seconds.resize(num_nodes);
  sum.slowest.resize(num_nodes);
  LayerAssignment assignment;
  std::vector<int32_t> experts;
  const std::vector<float> weights(routes.top_k, 1);
  double most = 0;
  for (int i = 0; i < num_layers; ++i) {
    DrawExperts(routes, &seed, &experts);
    assignment.Plan(placement, routes.first_layer + i % routes.num_layers,
                    {1, routes.top_k, experts, weights, {}}, nodes);
    const Load load = DrawLoad(assignment, experts, speeds, &seed);
    size_t slowest = 0;
    double longest = 0;
    for (size_t node = 0; node < num_nodes; ++node) {
      const double seconds = SecondsOf(speeds[node], load.slices[node],
                                       load.misses[node], routes.slice_bytes);
      sum.share[node] += load.slices[node];
      sum.seconds[node] += seconds / num_layers;
      if (seconds > longest) {
        longest = seconds;
        slowest = node;
      }
    }
    sum.seconds_per_layer += longest / num_layers;
    sum.slowest[slowest] += 1.0 / num_layers;
    most += *std::max_element(load.slices.begin(), load.slices.end());
  }
  const double total =
      1.0 * num_layers * routes.top_k * placement.options().num_slices;
  for (double& share : sum.share) share /= total;
  const auto working = std::count_if(sum.share.begin(), sum.share.end(),
                                     [](double share) { return share > 0; });
  sum.balance = total / static_cast<double>(working) / most;
  return sum;
}

}  // namespace deltafin
