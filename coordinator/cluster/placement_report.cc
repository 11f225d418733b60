#include "coordinator/cluster/placement_report.h"

#include <vector>

#include "coordinator/cluster/copy_counts.h"
#include "coordinator/cluster/meant_slices.h"
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

void AddShare(const Placement& placement, const SliceSet& meant, int slot,
              v1::PlacementReport* report) {
  const Member& member = placement.member(slot);
  v1::PlacementReport::Share* const share = report->add_shares();
  share->set_node(member.name);
  share->set_share(placement.share(slot));
  share->set_slices_wanted(meant.size());
  if (member.holdings == nullptr) {
    share->set_slices_held(meant.num_pairs());
    share->set_slices_spare(meant.num_pairs() - meant.size());
    return;
  }
  share->set_slices_held(member.holdings->size());
  share->set_slices_missing(meant.CountNotIn(*member.holdings));
  share->set_slices_spare(member.holdings->CountNotIn(meant));
}

void AddShares(const Placement& placement, const ModelExtent& extent,
               v1::PlacementReport* report) {
  const MeantSlices meant(placement, extent);
  for (int slot = 0; slot < placement.num_slots(); ++slot) {
    if (!placement.member(slot).can_work()) continue;
    AddShare(placement, meant.all(slot), slot, report);
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
  report.set_slice_bytes(static_cast<uint64_t>(extent.slice_bytes));
  report.set_uncovered_slices(static_cast<uint64_t>(
      CountCopies(placement, extent, placement.options().copies).none));
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
