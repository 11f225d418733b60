#include "expert_node/storage/repository_source.h"

#include <algorithm>
#include <utility>

#include "common/base/file_io.h"
#include "common/base/manifest.h"
#include "common/base/model_directory.h"
#include "common/base/status_macros.h"
#include "expert_node/storage/install_origin.h"
#include "expert_node/storage/shard_table.h"

namespace deltafin {
namespace {

constexpr uint64_t kMaxManifestBytes = uint64_t{64} << 20;

// Experts are read by where the manifest's shards have them.
absl::Status CheckShards(const Manifest& manifest, const ModelSource& source) {
  for (const ManifestEntry& entry : manifest.entries) {
    if (!entry.file.ends_with(".safetensors")) continue;
    const auto found =
        std::ranges::find(source.files(), entry.file, &SourceFile::name);
    if (found != source.files().end() && found->bytes == entry.bytes &&
        found->sha256 == entry.sha256) {
      continue;
    }
    return absl::FailedPreconditionError(fmt::format(
        "{} has another {} than the coordinator's model: name the revision "
        "that the model is of (--model OWNER/NAME@REVISION)",
        source.name(), entry.file));
  }
  return absl::OkStatus();
}

absl::StatusOr<ExpertSource> OpenRepository(const std::string& model_folder,
                                            const ModelRevision& repository,
                                            const HubAccess& access) {
  const InstalledPaths paths(model_folder);
  ASSIGN_OR_RETURN(const std::string text,
                   ReadFile(paths.manifest(), kMaxManifestBytes));
  ASSIGN_OR_RETURN(const Manifest manifest, Manifest::Parse(text));
  ExpertSource source;
  ASSIGN_OR_RETURN(source.table, ShardTable::Load(paths, manifest));
  InstallOrigin origin;
  origin.revision = repository;
  ASSIGN_OR_RETURN(OpenedSource opened, OpenOrigin(origin, access));
  RETURN_IF_ERROR(CheckShards(manifest, *opened.source));
  source.source = std::move(opened.source);
  return source;
}

}  // namespace

ExpertSourceOpener OpenerOfRepository(const std::string& model_folder,
                                      const ModelRevision& repository,
                                      const HubAccess& access) {
  return [model_folder, repository, access]() -> absl::StatusOr<ExpertSource> {
    absl::StatusOr<ExpertSource> source =
        OpenRepository(model_folder, repository, access);
    if (source.ok()) return source;
    return AddContext(source.status(),
                      fmt::format("not on this machine, and {} cannot supply "
                                  "it",
                                  repository.repository));
  };
}

}  // namespace deltafin
