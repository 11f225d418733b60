#include "coordinator/cluster/placement_report.h"

#include <vector>

#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

absl::Status CheckExpert(const v1::GetPlacementRequest& request,
                         const ModelExtent& extent) {
  const int64_t layer = request.layer();
  const int64_t last_layer = extent.first_layer + extent.num_layers - 1;
  if (layer < extent.first_layer || layer > last_layer ||
      int64_t{request.expert()} >= extent.num_experts) {
    return absl::InvalidArgumentError(
        fmt::format("layer {} expert {}: layers {} to {} have experts 0 to {}",
                    layer, request.expert(), extent.first_layer, last_layer,
                    extent.num_experts - 1));
  }
  return absl::OkStatus();
}

// Counts from here on are by slot.
struct SliceCounts {
  explicit SliceCounts(int num_slots) : wanted(num_slots), missing(num_slots) {}
  std::vector<int64_t> wanted;
  std::vector<int64_t> missing;
};

void CountRun(const Placement& placement, ExpertKey key, const NodeRun& run,
              SliceCounts* counts) {
  counts->wanted[run.node] += run.slices.count;
  const SliceSet* const holdings = placement.member(run.node).holdings.get();
  if (holdings == nullptr) return;
  for (int i = 0; i < run.slices.count; ++i) {
    if (!holdings->Contains(key, run.slices.first + i)) {
      ++counts->missing[run.node];
    }
  }
}

SliceCounts CountSlices(const Placement& placement, const ModelExtent& extent) {
  SliceCounts counts(placement.num_slots());
  std::vector<NodeRun> runs;
  for (int layer = 0; layer < extent.num_layers; ++layer) {
    for (int expert = 0; expert < extent.num_experts; ++expert) {
      const ExpertKey key = {extent.first_layer + layer, expert};
      for (int copy = 0; copy < placement.options().copies; ++copy) {
        placement.Cut(key, copy, &runs);
        for (const NodeRun& run : runs) CountRun(placement, key, run, &counts);
      }
    }
  }
  return counts;
}

void AddShares(const Placement& placement, const ModelExtent& extent,
               v1::PlacementReport* report) {
  const SliceCounts counts = CountSlices(placement, extent);
  const int64_t everything =
      int64_t{extent.num_layers} * extent.num_experts * extent.num_slices;
  for (int slot = 0; slot < placement.num_slots(); ++slot) {
    const Member& member = placement.member(slot);
    if (!member.can_work()) continue;
    v1::PlacementReport::Share* const share = report->add_shares();
    share->set_node(member.name);
    share->set_share(placement.share(slot));
    share->set_slices_wanted(counts.wanted[slot]);
    share->set_slices_held(
        member.holdings == nullptr ? everything : member.holdings->size());
    share->set_slices_missing(counts.missing[slot]);
  }
}

void AddRuns(const Placement& placement, ExpertKey key,
             v1::PlacementReport* report) {
  std::vector<NodeRun> runs;
  for (int copy = 0; copy < placement.options().copies; ++copy) {
    placement.Cut(key, copy, &runs);
    for (const NodeRun& run : runs) {
      v1::PlacedRun* const placed = report->add_runs();
      placed->set_node(placement.member(run.node).name);
      placed->set_first_slice(run.slices.first);
      placed->set_num_slices(run.slices.count);
      placed->set_held(placement.Holds(run.node, key, run.slices));
      placed->set_copy(copy);
    }
  }
}

}  // namespace

absl::StatusOr<v1::PlacementReport> ReportPlacement(
    const Placement& placement, const ModelExtent& extent,
    const v1::GetPlacementRequest& request) {
  v1::PlacementReport report;
  report.set_epoch(placement.epoch());
  report.set_policy(std::string(NameOf(placement.options().cut)));
  report.set_copies(placement.options().copies);
  AddShares(placement, extent, &report);
  if (!request.one_expert()) return report;
  const absl::Status valid = CheckExpert(request, extent);
  if (!valid.ok()) return valid;
  AddRuns(
      placement,
      {static_cast<int>(request.layer()), static_cast<int>(request.expert())},
      &report);
  return report;
}

}  // namespace deltafin
