// What deciding who computes which slices costs a layer: one token of K3's
// routes over some nodes, alike, uneven, and one of them far.

#include "coordinator/engine/layer_assignment.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/flags.h"
#include "coordinator/engine/expert_prediction.h"

namespace deltafin::bench {
namespace {

constexpr char kHelp[] = R"(Microseconds to assign one layer of one token.

  --json   one object a line
)";
constexpr int kLayers = 5000;

Placement EvenPlacement(int num_nodes, int copies) {
  std::vector<Member> members(num_nodes);
  for (Member& member : members) {
    member.state = MemberState::kServing;
    member.weight = 1;
  }
  PlacementOptions options;
  options.num_slices = 12;
  options.copies = copies;
  return Placement(1, options, std::move(members));
}

struct Case {
  const char* name;
  std::vector<NodeFitness> nodes;
};

std::vector<Case> Cases(int num_nodes) {
  const NodeFitness usual = {true, true, {3e-4, 4e-4}};
  std::vector<Case> cases(4);
  for (Case& one : cases) one.nodes.assign(num_nodes, usual);
  cases[0].name = "alike";
  cases[1].name = "uneven";
  for (int i = 0; i < num_nodes; ++i) {
    cases[1].nodes[i].cost.per_unit *= 1 + 0.5 * i;
  }
  cases[2].name = "one far";
  cases[2].nodes[0].cost.latency = 0.1;
  cases[3].name = "one lost";
  cases[3].nodes[0].fit = false;
  return cases;
}

void Measure(const Case& of, int num_nodes, bool json) {
  const Placement placement = EvenPlacement(num_nodes, 1);
  const RouteModel routes = {1, 92, 896, 16, 1'462'272};
  const std::vector<float> weights(routes.top_k, 1);
  LayerAssignment assignment;
  std::vector<int32_t> experts;
  std::vector<double> micros;
  uint64_t state = 1;
  for (int i = 0; i < kLayers; ++i) {
    DrawExperts(routes, &state, &experts);
    const auto begin = std::chrono::steady_clock::now();
    assignment.Plan(placement, 1 + i % 92,
                    {1, routes.top_k, experts, weights, {}}, of.nodes);
    micros.push_back(std::chrono::duration<double, std::micro>(
                         std::chrono::steady_clock::now() - begin)
                         .count());
  }
  std::sort(micros.begin(), micros.end());
  const double p50 = micros[micros.size() / 2];
  const double p99 = micros[micros.size() * 99 / 100];
  std::printf(json ? "{\"nodes\": %d, \"case\": \"%s\", \"p50_us\": %.1f, "
                     "\"p99_us\": %.1f}\n"
                   : "%5d  %-9s %8.1f %8.1f\n",
              num_nodes, of.name, p50, p99);
}

}  // namespace
}  // namespace deltafin::bench

int main(int argc, char** argv) {
  using namespace deltafin::bench;
  bool json = false;
  Flags flags("layer_assignment", kHelp);
  flags.AddSwitch("--json", json);
  flags.Parse(argc, argv);
  if (!json) std::puts("nodes  case        p50 us   p99 us");
  for (const int num_nodes : {1, 2, 4, 8}) {
    for (const Case& of : Cases(num_nodes)) Measure(of, num_nodes, json);
  }
}
