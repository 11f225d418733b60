// Expert time of a token against the number of nodes: real 17.5 MB experts,
// nodes that are processes, reads held to a disk's rate. Prints what is
// predicted from a calibration before what is measured.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "bench/expert_layers.h"
#include "bench/flags.h"
#include "bench/scaling_nodes.h"
#include "common/base/check.h"
#include "common/base/log.h"
#include "coordinator/engine/expert_prediction.h"

namespace deltafin::bench {
namespace {

constexpr int kMostNodes = 64;

constexpr char kHelp[] = R"(Expert time of a token against the number of nodes.

  --read-rate B   bytes a second that each node's disk delivers (default 1e9)
  --layers N      layers of the token that is timed (default 24)
  --nodes LIST    numbers of nodes (default 1,2,3,4,5,8)
  --threads N     compute threads of each node (default 1)
  --json          one object a line

At the end three nodes whose disks deliver 1, 2 and 4 quarters of that rate,
with shares in proportion: the time against bytes over the sum of rates.

Every node is a process that serves real-size experts (12 slices of 1.46 MB)
from memory at that rate and keeps none of them. All share this machine's cores:
where nodes x threads exceeds them, computing shows in the times.
)";

struct Options {
  double read_rate = 1e9;
  int layers = 24;
  int threads = 1;
  std::vector<int> nodes = {1, 2, 3, 4, 5, 8};
  bool json = false;
};

// Rates of the uneven nodes, in proportion.
const std::vector<double> kUneven = {1, 2, 4};

struct Measured {
  double seconds_per_layer = 0;
  double balance = 0;          // slices of the mean node over the busiest
  std::vector<double> slices;  // of each node, over all layers
};

// Layers of experts that `routes` draws.
Measured Time(ExpertLayers& run, const RouteModel& routes, int num_layers,
              uint64_t seed) {
  Measured sum;
  std::vector<int64_t> before = run.Slices();
  sum.slices.resize(before.size());
  double most = 0;
  int64_t total = 0;
  for (int i = -2; i < num_layers; ++i) {  // two to warm up
    const double seconds = run.Time(routes, std::max(i, 0), &seed);
    const std::vector<int64_t> after = run.Slices();
    if (i >= 0) {
      sum.seconds_per_layer += seconds / num_layers;
      int64_t busiest = 0;
      for (size_t node = 0; node < after.size(); ++node) {
        const int64_t of_node = after[node] - before[node];
        busiest = std::max(busiest, of_node);
        total += of_node;
        sum.slices[node] += static_cast<double>(of_node);
      }
      most += static_cast<double>(busiest);
    }
    before = after;
  }
  sum.balance =
      static_cast<double>(total) / static_cast<double>(before.size()) / most;
  return sum;
}

ExpertLayers LayersOn(const std::vector<std::unique_ptr<Child>>& nodes,
                      const std::vector<double>& weights,
                      const PlacementOptions& placement) {
  return ExpertLayers(kScalingDigest, placement,
                      ScalingMembers(nodes, weights, placement));
}

// From layers of one and of sixteen experts on one node, which take latency +
// bytes / rate; the kernel's rate from experts that are in memory.
NodeSpeed Calibrate(const Options& options,
                    const std::vector<std::unique_ptr<Child>>& nodes,
                    const PlacementOptions& placement) {
  ExpertLayers run = LayersOn(nodes, {1}, placement);
  RouteModel one = Routes();
  one.top_k = 1;
  RouteModel four = Routes();
  four.top_k = 4;
  RouteModel resident = four;  // always the same four
  resident.num_experts = 4;
  resident.num_layers = 1;
  const double expert_bytes =
      static_cast<double>(one.slice_bytes) * placement.num_slices;
  const double small = Time(run, one, options.layers, 1).seconds_per_layer;
  const double large = Time(run, four, options.layers, 2).seconds_per_layer;
  double warm = 0;
  for (int i = 0; i < options.layers; ++i) {
    warm += Time(run, resident, 1, 3).seconds_per_layer / options.layers;
  }
  NodeSpeed speed;
  speed.read_rate = 3 * expert_bytes / (large - small);
  speed.kernel_rate = 4 * expert_bytes / warm;
  speed.latency = std::max(
      0.0, small - expert_bytes / speed.read_rate -
               static_cast<double>(one.slice_bytes) / speed.kernel_rate);
  return speed;
}

void Print(const Options& options, const char* cut, int copies, int nodes,
           double predicted, const Measured& measured, double one_node) {
  const double token = measured.seconds_per_layer * Routes().num_layers;
  // 0: not measured with one node.
  const double efficiency = one_node / (nodes * measured.seconds_per_layer);
  if (options.json) {
    std::printf(
        "{\"cut\": \"%s\", \"copies\": %d, \"nodes\": %d, "
        "\"predicted_ms\": %.2f, \"measured_ms\": %.2f, \"ratio\": %.3f, "
        "\"balance\": %.3f, \"efficiency\": %.3f, \"token_s\": %.3f}\n",
        cut, copies, nodes, 1e3 * predicted, 1e3 * measured.seconds_per_layer,
        measured.seconds_per_layer / predicted, measured.balance, efficiency,
        token);
  } else {
    std::printf("%11.2f %8.3f %8.3f %11.3f %8.3f\n",
                1e3 * measured.seconds_per_layer,
                measured.seconds_per_layer / predicted, measured.balance,
                efficiency, token);
  }
  std::fflush(stdout);
}

NodeSpeed MeasureAll(const Options& options,
                     const std::vector<std::unique_ptr<Child>>& nodes) {
  PlacementOptions placement;
  placement.num_slices = FullExperts().expert_shape().num_slices();
  const NodeSpeed speed = Calibrate(options, nodes, placement);
  std::fprintf(stderr,
               "calibration, one node: latency %.2f ms, read %.3f GB/s, kernel "
               "%.2f GB/s\n",
               1e3 * speed.latency, speed.read_rate / 1e9,
               speed.kernel_rate / 1e9);
  if (!options.json) {
    std::puts(
        "cut      copies nodes predicted ms measured ms    ratio  balance  "
        "efficiency s/token");
  }
  double one_node = 0;
  for (const CutKind cut : {CutKind::kProportional, CutKind::kWholeExperts}) {
    for (const int copies : {1, 2}) {
      for (const int count : options.nodes) {
        if (count < copies) continue;
        placement.cut = cut;
        placement.copies = copies;
        ExpertLayers run =
            LayersOn(nodes, std::vector<double>(count, 1), placement);
        const std::vector<NodeSpeed> speeds(count, speed);
        const double predicted =
            PredictExperts(run.placement(), Routes(), speeds, 500, 7)
                .seconds_per_layer;
        const char* name = cut == CutKind::kProportional ? "slices" : "whole";
        if (!options.json) {
          std::printf("%-8s %6d %5d %12.2f ", name, copies, count,
                      1e3 * predicted);
          std::fflush(stdout);
        }
        const Measured measured = Time(run, Routes(), options.layers, 11);
        if (count == 1) one_node = measured.seconds_per_layer;
        Print(options, name, copies, count, predicted, measured, one_node);
      }
    }
  }
  return speed;
}

// The largest deviation of a node's share of the slices from its weight's.
double ShareError(const Measured& measured) {
  const double slices =
      std::accumulate(measured.slices.begin(), measured.slices.end(), 0.0);
  const double weights = std::accumulate(kUneven.begin(), kUneven.end(), 0.0);
  double error = 0;
  for (size_t i = 0; i < kUneven.size(); ++i) {
    const double ratio = measured.slices[i] / slices / (kUneven[i] / weights);
    error = std::max(error, std::abs(ratio - 1));
  }
  return error;
}

void MeasureUneven(const Options& options, const NodeSpeed& speed,
                   const std::vector<std::unique_ptr<Child>>& nodes) {
  PlacementOptions placement;
  placement.num_slices = FullExperts().expert_shape().num_slices();
  ExpertLayers run = LayersOn(nodes, kUneven, placement);
  const Measured measured = Time(run, Routes(), options.layers, 13);
  const RouteModel routes = Routes();
  const double bytes = 1.0 * routes.top_k * placement.num_slices *
                       static_cast<double>(routes.slice_bytes);
  double rate = 0;
  for (const double weight : kUneven) {
    rate += weight * speed.read_rate / kUneven.back();
  }
  const double proportional = speed.latency + bytes / rate;
  if (options.json) {
    std::printf(
        "{\"cut\": \"uneven 1:2:4\", \"proportional_ms\": %.2f, "
        "\"measured_ms\": %.2f, \"ratio\": %.3f, \"share_error\": %.3f}\n",
        1e3 * proportional, 1e3 * measured.seconds_per_layer,
        measured.seconds_per_layer / proportional, ShareError(measured));
  } else {
    std::printf(
        "uneven 1:2:4: %.2f ms a layer, in exact proportion %.2f ms, ratio "
        "%.3f; shares within %.1f %% of proportion\n",
        1e3 * measured.seconds_per_layer, 1e3 * proportional,
        measured.seconds_per_layer / proportional, 100 * ShareError(measured));
  }
}

Options ParseOptions(int argc, char** argv) {
  Options options;
  Flags flags("cluster_scaling", kHelp);
  flags.AddPositive("--read-rate", options.read_rate);
  flags.AddNumber("--layers", options.layers);
  flags.AddNumber("--threads", options.threads);
  flags.AddNumbers("--nodes", options.nodes, 1, kMostNodes);
  flags.AddSwitch("--json", options.json);
  flags.Parse(argc, argv);
  return options;
}

void RunAll(const Options& options) {
  std::vector<std::unique_ptr<Child>> nodes;
  const int most =
      *std::max_element(options.nodes.begin(), options.nodes.end());
  while (static_cast<int>(nodes.size()) < most) {
    nodes.push_back(ScalingNode(options.threads, options.read_rate));
  }
  std::vector<std::unique_ptr<Child>> uneven;
  for (const double weight : kUneven) {
    uneven.push_back(ScalingNode(options.threads,
                                 options.read_rate * weight / kUneven.back()));
  }
  const NodeSpeed speed = MeasureAll(options, nodes);
  MeasureUneven(options, speed, uneven);
}

}  // namespace
}  // namespace deltafin::bench

int main(int argc, char** argv) {
  deltafin::InitLogging("cluster_scaling");
  CHECK_OK(deltafin::SetLogLevel("warn"));
  deltafin::bench::RunAll(deltafin::bench::ParseOptions(argc, argv));
}
