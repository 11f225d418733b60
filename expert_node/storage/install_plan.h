// expert_node/storage/install_plan.h
//
// What an installation takes of the drive against what is free. Pure but for
// MeasureDrive.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/model_spec.h"
#include "expert_node/storage/install_origin.h"

namespace deltafin {

struct InstallPlan {
  uint64_t metadata_bytes = 0;  // small files and the shards' headers; at most
  uint64_t spine_bytes = 0;
  uint64_t expert_bytes = 0;  // all of them, as records
  uint64_t reserve_bytes = 0;
  InstallOrigin::Experts experts = InstallOrigin::Experts::kAll;

  uint64_t present_bytes = 0;  // what the folder takes already
  uint64_t free_bytes = 0;

  // Bytes of the complete installation.
  uint64_t total_bytes() const;
  // What is still to come.
  uint64_t missing_bytes() const;

  // "needs 12.9 MiB (...), of which ... are there; 80 GiB are free", one line.
  std::string Text(const std::string& dir) const;
  // Errors: RESOURCE_EXHAUSTED with the numbers and what to do.
  absl::Status Check(const std::string& dir) const;
};

// The needs alone. `small_files_bytes` of those installed as they are.
InstallPlan PlanInstall(const ModelSpec& spec, uint64_t small_files_bytes,
                        InstallOrigin::Experts experts);

// Fills present_bytes and free_bytes; the folder need not exist.
absl::Status MeasureDrive(const std::string& dir, InstallPlan& plan);

}  // namespace deltafin
