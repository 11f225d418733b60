#include "expert_node/ledger_rebuild.h"

#include <cstdio>
#include <memory>

#include "common/base/manifest.h"
#include "common/base/memory_budget.h"
#include "common/base/model_directory.h"
#include "common/base/status_macros.h"
#include "expert_node/data_folder.h"
#include "expert_node/model_files_receiver.h"
#include "expert_node/storage/expert_index.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

void Tell(const std::string& folder, const ExpertIndex& index) {
  const LedgerContents& found = index.found();
  const std::string text = fmt::format(
      "the ledger in {} is made anew: {} experts on the drive, the heat of {}, "
      "quota {}\n",
      folder, found.held.size(), found.heat.uses.size(),
      found.quota_bytes ? FormatByteSize(*found.quota_bytes) : "none");
  std::fputs(text.c_str(), stdout);
}

absl::Status RebuildBesideRecords(const std::string& model_dir,
                                  const std::string& folder,
                                  const std::string& digest) {
  ASSIGN_OR_RETURN(const ModelSpec spec, ModelSpec::Load(model_dir));
  ASSIGN_OR_RETURN(const std::unique_ptr<RecordStore> records,
                   RecordStore::Open(folder, RecordModel::Of(spec, digest),
                                     RecordStoreOptions()));
  ASSIGN_OR_RETURN(const std::unique_ptr<ExpertIndex> index,
                   ExpertIndex::Rebuild(folder, digest, records.get()));
  Tell(folder, *index);
  return absl::OkStatus();
}

}  // namespace

absl::Status RebuildLedger(const ExpertNodeOptions& options,
                           const std::string& data_dir) {
  if (options.share) {
    ASSIGN_OR_RETURN(const Manifest manifest,
                     KnownModel(options.model_dir, /*with_shards=*/false));
    return RebuildBesideRecords(
        options.model_dir, options.share->experts_folder, manifest.Digest());
  }
  ASSIGN_OR_RETURN(const ModelLayout layout, LayoutOfModel(options.model_dir));
  ASSIGN_OR_RETURN(const Manifest manifest,
                   ManifestOfDirectory(options.model_dir, options.digest_cache,
                                       options.progress));
  if (layout != ModelLayout::kReleased) {
    return RebuildBesideRecords(
        options.model_dir, InstalledPaths(options.model_dir).experts_folder(),
        manifest.Digest());
  }
  if (data_dir.empty()) {
    return absl::InvalidArgumentError(
        "--rebuild-ledger: a node over released shards has its ledger in its "
        "data folder; name it with --data");
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<DataFolder> folder,
                   DataFolder::Open(data_dir));
  ASSIGN_OR_RETURN(const std::unique_ptr<ExpertIndex> index,
                   ExpertIndex::Rebuild(data_dir, manifest.Digest(), nullptr));
  Tell(data_dir, *index);
  return absl::OkStatus();
}

}  // namespace deltafin
