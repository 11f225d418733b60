#include "expert_node/storage/install_origin.h"

#include <filesystem>
#include <utility>

#include "common/base/file_io.h"
#include "common/base/status_macros.h"
#include "expert_node/storage/directory_source.h"
#include "expert_node/storage/hub_source.h"

namespace deltafin {
namespace {

constexpr std::string_view kDirectory = "directory ";
constexpr std::string_view kRepository = "repository ";
constexpr std::string_view kAll = "experts all\n";
constexpr std::string_view kOnDemand = "experts on-demand\n";

absl::StatusOr<OpenedSource> OpenDirectory(const InstallOrigin& origin) {
  ASSIGN_OR_RETURN(std::shared_ptr<DirectorySource> source,
                   DirectorySource::Open(origin.directory));
  OpenedSource opened{source, origin, [] {}};
  opened.origin.directory = source->name();
  return opened;
}

absl::StatusOr<OpenedSource> OpenRepository(const InstallOrigin& origin,
                                            const HubAccess& access) {
  HubOptions options;
  options.access = access;
  options.model = origin.revision;
  ASSIGN_OR_RETURN(std::shared_ptr<HubSource> source,
                   HubSource::Create(std::move(options)));
  OpenedSource opened{source, origin, [source] { source->Cancel(); }};
  opened.origin.revision.revision = source->commit();
  return opened;
}

}  // namespace

std::string InstallOrigin::name() const {
  return directory.empty() ? revision.repository + "@" + revision.revision
                           : directory;
}

std::string InstallOrigin::Text() const {
  return fmt::format("{}{}\n{}", directory.empty() ? kRepository : kDirectory,
                     name(), experts == Experts::kAll ? kAll : kOnDemand);
}

absl::StatusOr<InstallOrigin> InstallOrigin::Parse(std::string_view text) {
  InstallOrigin origin;
  const size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  const std::string_view rest =
      end == std::string_view::npos ? "" : text.substr(end + 1);
  if (rest != kAll && rest != kOnDemand) {
    return absl::DataLossError(
        "the second line says neither all nor on-demand");
  }
  origin.experts = rest == kAll ? Experts::kAll : Experts::kOnDemand;
  if (line.starts_with(kDirectory) && line.size() > kDirectory.size()) {
    origin.directory = line.substr(kDirectory.size());
    return origin;
  }
  if (!line.starts_with(kRepository)) {
    return absl::DataLossError("the first line names no source");
  }
  absl::StatusOr<ModelRevision> revision =
      ParseModelRevision(line.substr(kRepository.size()));
  if (!revision.ok()) {
    return absl::DataLossError(std::string(revision.status().message()));
  }
  origin.revision = *std::move(revision);
  return origin;
}

absl::StatusOr<InstallOrigin> ReadInstallOrigin(const InstalledPaths& paths) {
  constexpr uint64_t kMaxBytes = 8192;
  const absl::StatusOr<std::string> text = ReadFile(paths.source(), kMaxBytes);
  if (absl::IsNotFound(text.status())) {
    return absl::NotFoundError(fmt::format(
        "{} does not exist: nothing was installed into {} yet; name a source "
        "with `deltafin setup`",
        paths.source(), paths.dir()));
  }
  if (!text.ok()) return text.status();
  absl::StatusOr<InstallOrigin> origin = InstallOrigin::Parse(*text);
  if (!origin.ok()) return AddContext(origin.status(), paths.source());
  return origin;
}

absl::StatusOr<OpenedSource> OpenOrigin(const InstallOrigin& origin,
                                        const HubAccess& access) {
  return origin.directory.empty() ? OpenRepository(origin, access)
                                  : OpenDirectory(origin);
}

}  // namespace deltafin
