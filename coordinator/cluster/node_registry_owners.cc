// Who has slices that a member lacks.

#include "common/base/status_macros.h"
#include "coordinator/cluster/join_check.h"
#include "coordinator/cluster/node_registry.h"
#include "coordinator/cluster/slice_owners.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

absl::Status CheckRun(const v1::FindOwnersRequest& request,
                      const ModelExtent& extent) {
  const uint32_t first = extent.first_layer;
  const uint32_t num_slices = extent.num_slices;
  if (request.layer() >= first &&
      request.layer() - first < static_cast<uint32_t>(extent.num_layers) &&
      request.expert() < static_cast<uint32_t>(extent.num_experts) &&
      request.num_slices() >= 1 && request.num_slices() <= num_slices &&
      request.first_slice() <= num_slices - request.num_slices()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(fmt::format(
      "layer {} expert {} slices {}+{} are not of this model", request.layer(),
      request.expert(), request.first_slice(), request.num_slices()));
}

}  // namespace

absl::StatusOr<v1::FindOwnersReply> NodeRegistry::FindOwners(
    const v1::FindOwnersRequest& request) {
  RETURN_IF_ERROR(CheckFindOwnersFields(request));
  RETURN_IF_ERROR(CheckRun(request, options_.extent));
  std::shared_ptr<const Placement> placement;
  int asking = -1;
  {
    MutexLock lock(mutex_);
    if (FindProcess(request.node_id(), request.incarnation()) == nullptr) {
      return absl::NotFoundError(fmt::format(
          "node {} is no member (any more): join again", request.node_id()));
    }
    asking = table_.FindId(request.node_id());
    placement = placement_;
  }
  const ExpertKey key = {static_cast<int32_t>(request.layer()),
                         static_cast<int32_t>(request.expert())};
  v1::FindOwnersReply reply;
  reply.set_epoch(placement->epoch());
  for (const OwnedSlices& part :
       OwnersOf(*placement, asking, key,
                {static_cast<int>(request.first_slice()),
                 static_cast<int>(request.num_slices())})) {
    v1::CopyOrder& run = *reply.add_runs();
    run.set_layer(request.layer());
    run.set_expert(request.expert());
    run.set_first_slice(part.run.first);
    run.set_num_slices(part.run.count);
    for (const int slot : part.slots) {
      run.add_owners(OwnerName(placement->member(slot)));
    }
    if (options_.supplies_slices) NameSupplier(&run);
  }
  return reply;
}

}  // namespace deltafin
