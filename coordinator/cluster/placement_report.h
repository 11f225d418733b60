// coordinator/cluster/placement_report.h
//
// A placement told to people: who is meant to have how much, and who has an
// expert. Pure.
#pragma once

#include "absl/status/statusor.h"
#include "coordinator/cluster/model_extent.h"
#include "coordinator/cluster/placement.h"
#include "proto/admin.pb.h"

namespace deltafin {

// Milliseconds for a large model. Errors: INVALID_ARGUMENT for a layer or
// expert that the model does not have, with what it has.
absl::StatusOr<v1::PlacementReport> ReportPlacement(
    const Placement& placement, const ModelExtent& extent,
    const v1::GetPlacementRequest& request);

}  // namespace deltafin
