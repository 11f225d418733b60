#include "expert_node/storage/installed_experts.h"

#include <utility>

#include "common/base/log.h"
#include "common/base/manifest.h"
#include "common/base/model_directory.h"
#include "common/base/status_macros.h"
#include "expert_node/storage/install_origin.h"
#include "expert_node/storage/shard_table.h"

namespace deltafin {
namespace {

absl::StatusOr<ExpertSource> OpenSource(const InstallOrigin& origin,
                                        const InstalledPaths& paths,
                                        const HubAccess& access) {
  ASSIGN_OR_RETURN(const Manifest manifest,
                   ManifestOfDirectory(paths.dir(), "", {}));
  ExpertSource source;
  ASSIGN_OR_RETURN(source.table, ShardTable::Load(paths, manifest));
  ASSIGN_OR_RETURN(OpenedSource opened, OpenOrigin(origin, access));
  source.source = std::move(opened.source);
  return source;
}

void LogShare(const RecordStore& records, const InstallOrigin& origin,
              const std::string& model_dir) {
  const RecordModel& model = records.model();
  const uint64_t all =
      uint64_t(model.num_layers - model.first_moe_layer) * model.num_experts;
  const uint64_t held = records.stats().complete_experts;
  if (held == all) return;
  spdlog::info(
      "{} is still streaming: {} of {} experts are installed ({:.1f} %), the "
      "others come from {} as they are used; `deltafin fetch-experts {}` "
      "brings them all",
      model_dir, held, all,
      100.0 * static_cast<double>(held) / static_cast<double>(all),
      origin.name(), model_dir);
}

}  // namespace

ExpertSourceOpener OpenerOfInstalled(const std::string& model_dir,
                                     const HubAccess& access) {
  return [model_dir, access]() -> absl::StatusOr<ExpertSource> {
    const InstalledPaths paths(model_dir);
    ASSIGN_OR_RETURN(const InstallOrigin origin, ReadInstallOrigin(paths));
    absl::StatusOr<ExpertSource> source = OpenSource(origin, paths, access);
    if (source.ok()) return source;
    return AddContext(source.status(),
                      fmt::format("not installed in {}, and {} cannot supply "
                                  "it",
                                  model_dir, origin.name()));
  };
}

absl::StatusOr<std::unique_ptr<InstalledExperts>> InstalledExperts::Open(
    const std::string& model_dir, const ModelSpec& spec,
    const std::string& manifest_digest, const HubAccess& access) {
  const InstalledPaths paths(model_dir);
  ASSIGN_OR_RETURN(const InstallOrigin origin, ReadInstallOrigin(paths));
  RecordStoreOptions options;
  options.program = "deltafin";
  ASSIGN_OR_RETURN(
      std::unique_ptr<RecordStore> records,
      RecordStore::Open(paths.experts_folder(),
                        RecordModel::Of(spec, manifest_digest), options));
  LogShare(*records, origin, model_dir);
  auto source =
      std::make_unique<SourceStore>(spec, OpenerOfInstalled(model_dir, access));
  return std::unique_ptr<InstalledExperts>(
      new InstalledExperts(std::move(records), std::move(source)));
}

InstalledExperts::InstalledExperts(std::unique_ptr<RecordStore> records,
                                   std::unique_ptr<ExpertStore> source)
    : records_(std::move(records)),
      experts_(std::make_unique<FetchingStore>(*records_, std::move(source),
                                               FetchingStoreOptions())) {}

InstalledExperts::~InstalledExperts() = default;

}  // namespace deltafin
