#include "expert_node/storage/installed_experts.h"

#include <utility>

#include "common/base/clock.h"
#include "common/base/manifest.h"
#include "common/base/model_directory.h"
#include "common/base/status_macros.h"
#include "expert_node/storage/install_origin.h"
#include "expert_node/storage/shard_table.h"
#include "spdlog/fmt/fmt.h"

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
    const std::string& manifest_digest, const HubAccess& access,
    ReadRateMeter* meter) {
  const InstalledPaths paths(model_dir);
  ASSIGN_OR_RETURN(const InstallOrigin origin, ReadInstallOrigin(paths));
  RecordStoreOptions options;
  options.program = "deltafin";
  options.meter = meter;
  ASSIGN_OR_RETURN(
      std::unique_ptr<RecordStore> records,
      RecordStore::Open(paths.experts_folder(),
                        RecordModel::Of(spec, manifest_digest), options));
  auto source =
      std::make_unique<SourceStore>(spec, OpenerOfInstalled(model_dir, access));
  return std::unique_ptr<InstalledExperts>(new InstalledExperts(
      origin.name(), std::move(records), std::move(source)));
}

InstalledExperts::InstalledExperts(std::string source_name,
                                   std::unique_ptr<RecordStore> records,
                                   std::unique_ptr<ExpertStore> source)
    : source_name_(std::move(source_name)),
      source_meter_(ReadRateOptions{0, /*busy_reads=*/1}, SystemClock()),
      records_(std::move(records)) {
  FetchingStoreOptions options;
  options.meter = &source_meter_;
  experts_ =
      std::make_unique<FetchingStore>(*records_, std::move(source), options);
}

InstalledExperts::~InstalledExperts() = default;

}  // namespace deltafin
