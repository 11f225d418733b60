// expert_node/storage/model_installer.h
//
// Installs a model from a source into a folder (docs/installed_model.md), in
// steps that may be interrupted anywhere: done again, it goes on where it was
// and ends with the same files. Thread-compatible.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/folder_lock.h"
#include "common/base/manifest.h"
#include "common/base/model_directory.h"
#include "common/base/model_spec.h"
#include "expert_node/storage/expert_install.h"
#include "expert_node/storage/install_origin.h"
#include "expert_node/storage/install_plan.h"
#include "expert_node/storage/model_source.h"
#include "expert_node/storage/record_store.h"
#include "expert_node/storage/shard_comparison.h"
#include "expert_node/storage/shard_table.h"

namespace deltafin {

struct InstallOptions {
  // Reads of the source at once.
  int parallel = 8;
  // Bytes of the file system that are left to others.
  uint64_t reserve_bytes = uint64_t{1} << 30;
  // Reads the experts that are there and fetches damaged ones again.
  bool check_experts = false;
  // Compares every shard that was installed with its released SHA-256, at the
  // end: no list tells the digest of an expert on its way.
  bool compare_shards = true;
  InstallProgress progress;         // may be empty
  std::function<bool()> cancelled;  // asked by any thread; may be empty
};

// Errors: INVALID_ARGUMENT unless the folder is missing, empty, or one that
// an installation from `origin` (or from anywhere, where it is null) began.
absl::Status CheckInstallFolder(const std::string& dir,
                                const InstallOrigin* origin);

class ModelInstaller {
 public:
  // Reads what it takes to plan; writes nothing. Errors: those of the source
  // and of CheckInstallFolder; INVALID_ARGUMENT for what is no model of the
  // family; RESOURCE_EXHAUSTED when the drive has no room for it, with the
  // numbers.
  static absl::StatusOr<std::unique_ptr<ModelInstaller>> Prepare(
      const std::string& dir, OpenedSource source, InstallOptions options);

  const InstallPlan& plan() const { return plan_; }

  // Installs everything that the origin asks for; shards that arrived other
  // than they were released are fetched a second time. Blocks. Errors:
  // CANCELLED; DATA_LOSS for bytes that are not the released ones, which are
  // gone then; UNAVAILABLE when another process installs there; those of source
  // and file system.
  absl::Status Run();

 private:
  ModelInstaller(const std::string& dir, OpenedSource source,
                 InstallOptions options);

  absl::Status MakePlan();
  enum class Check { kNone, kExperts };
  absl::Status InstallAll(Check check);
  const SourceFile* FindFile(const std::string& name) const;
  absl::Status ClaimFolder();
  // Removes what differs from DIR/files, so that it is fetched again.
  absl::Status RemoveDamaged();
  absl::Status InstallSmallFiles();
  absl::Status InstallManifest();
  absl::StatusOr<std::vector<SourceFile>> FilesOfManifest() const;
  absl::Status InstallHeaders();
  absl::Status FetchHeaders();
  absl::Status CheckHeaders() const;  // they hold config.json's tensors
  absl::Status RemoveHeaders();
  absl::Status InstallSpine();
  // Writes DIR/files, what all that is checked against later.
  absl::Status SealFiles();
  // Files that were fetched again are what they were.
  absl::Status CheckRefetched() const;
  absl::Status InstallExperts(Check check);
  // The shards that differ, of those that were not compared yet.
  absl::StatusOr<std::vector<ShardDifference>> FindDifferences();
  // Removes all that came of these shards, so that it is fetched again.
  absl::Status DropShards(std::span<const ShardDifference> shards);
  absl::Status CompareAllAgain();  // as if none had been compared
  // Shards of which an expert is missing will be compared again.
  absl::Status ForgetIncompleteShards(const RecordStore& records,
                                      const ShardTable& table);
  absl::Status Download(ModelSource& from, const SourceFile& file,
                        const std::string& path, std::string_view step);
  absl::Status CheckCancelled() const;
  void Tell(std::string_view step, uint64_t done, uint64_t total) const;

  const InstalledPaths paths_;
  const OpenedSource opened_;
  const InstallOptions options_;
  ModelSource& source_;
  ModelSpec spec_;
  InstallPlan plan_;
  std::vector<SourceFile> small_files_;
  std::vector<ManifestEntry> refetched_;
};

}  // namespace deltafin
