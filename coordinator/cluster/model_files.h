// coordinator/cluster/model_files.h
//
// The files that a node knows a model by, from the coordinator's folder, which
// may be released files or an installed model. Immutable; thread-safe.
#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "common/base/manifest.h"
#include "proto/cluster.pb.h"

namespace deltafin {

class ModelFiles {
 public:
  ModelFiles(std::string model_dir, Manifest manifest)
      : model_dir_(std::move(model_dir)), manifest_(std::move(manifest)) {}

  // Hands the files on in pieces, the manifest first (proto/cluster.proto).
  // `write` may block; false ends it. Blocks on the drive. Errors: CANCELLED
  // when `write` said no; those of the files.
  absl::Status Send(
      bool with_shards,
      absl::FunctionRef<bool(const v1::ModelFilePiece&)> write) const;

 private:
  // The first bytes of a shard, up to its tensors.
  absl::StatusOr<std::string> HeaderOf(const ManifestEntry& shard) const;

  const std::string model_dir_;
  const Manifest manifest_;
};

}  // namespace deltafin
