// expert_node/storage/model_check.h
//
// What is missing or damaged in an installed model, found without a network
// and without changing anything.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/model_spec.h"
#include "expert_node/storage/install_origin.h"

namespace deltafin {

struct ModelFinding {
  std::string path;
  std::string problem;  // "is missing", "has 3 bytes, not 7"
  int layer = -1;       // -1: no layer's experts
  std::vector<int> experts;
  std::vector<int> slices;  // of the one expert; empty: all
};

struct ModelCheck {
  std::string source;
  InstallOrigin::Experts experts = InstallOrigin::Experts::kAll;
  uint64_t experts_held = 0;  // whole ones, as their index says
  uint64_t experts_total = 0;
  std::vector<ModelFinding> findings;
  std::string command;  // that mends them; empty when there are none
};

enum class CheckDepth {
  kShallow,  // what is there, and sizes
  kDeep,     // every byte: SHA-256 of files and experts, digest of every slice
};

// Blocks on disk. `progress(done_bytes, total_bytes)` may be empty. Errors:
// INVALID_ARGUMENT for a folder that is no installed model, NOT_FOUND.
absl::StatusOr<ModelCheck> CheckModel(
    const std::string& dir, CheckDepth depth,
    const std::function<void(uint64_t, uint64_t)>& progress);

}  // namespace deltafin
