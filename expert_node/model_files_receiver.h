// expert_node/model_files_receiver.h
//
// What a coordinator sends of its model, on its way into a node's folder:
// nothing gets a name there that is not a file of the model as the manifest
// tells it. Thread-compatible.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/manifest.h"
#include "common/base/model_directory.h"
#include "proto/cluster.pb.h"

namespace deltafin {

class ModelFilesReceiver {
 public:
  // `folder` has a folder for headers. `with_shards`: index and shard headers
  // are wanted, too.
  ModelFilesReceiver(const std::string& folder, bool with_shards)
      : with_shards_(with_shards), paths_(folder) {}

  // Takes the next piece. A file that is whole and what the manifest says has
  // its name from then on; each comes once, the manifest first. Blocks on disk.
  // Errors: DATA_LOSS naming the file, FAILED_PRECONDITION with both digests
  // when the folder has another model's; after an error no more is taken.
  absl::Status Take(const v1::ModelFilePiece& piece);

  // The folder has all of it already: the rest need not come.
  bool is_complete() const { return is_complete_; }

  // After the last piece: writes the manifest, by which the folder counts as
  // whole. Errors: DATA_LOSS when files are missing; those of the file system.
  absl::Status Finish();

 private:
  absl::Status Begin(const v1::ModelFilePiece& piece);
  absl::Status Keep(const std::string& contents);
  absl::Status KeepManifest(const std::string& contents);
  absl::Status CheckReleased(const std::string& contents) const;
  absl::Status CheckHeader(const std::string& contents) const;

  const bool with_shards_;
  const InstalledPaths paths_;
  std::optional<Manifest> manifest_;
  std::set<std::string> wanted_;  // names that have not come yet
  bool is_complete_ = false;
  std::string name_;  // of the file that comes
  uint64_t file_bytes_ = 0;
  std::string contents_;
};

// The model whose files the folder has, as Finish left them. Errors: NOT_FOUND
// when some are missing; DATA_LOSS.
absl::StatusOr<Manifest> KnownModel(const std::string& folder,
                                    bool with_shards);

}  // namespace deltafin
