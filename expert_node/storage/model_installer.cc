#include "expert_node/storage/model_installer.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "common/base/file_io.h"
#include "common/base/log.h"
#include "common/base/manifest.h"
#include "common/base/status_macros.h"
#include "expert_node/storage/record_check.h"
#include "expert_node/storage/record_store.h"
#include "expert_node/storage/source_store.h"

namespace deltafin {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kConfig = "config.json";
constexpr uint64_t kMaxConfigBytes = uint64_t{16} << 20;

// Installed as they are; those marked must be there.
struct SmallFile {
  std::string_view name;
  bool required;
};
constexpr SmallFile kSmallFiles[] = {
    {kConfig, true},
    {"model.safetensors.index.json", true},
    {"tiktoken.model", true},
    {"tokenizer_config.json", true},
    {"generation_config.json", false},
    {"chat_template.jinja", false},
    {"LICENSE", false},
};

// What a killed process may leave before the folder says that it is ours.
bool IsBeginning(const std::string& name) {
  return name == "lock" || name.starts_with("format.tmp-");
}

absl::Status WriteUnlessSame(const std::string& path,
                             const std::string& contents) {
  const absl::StatusOr<std::string> there =
      ReadFile(path, contents.size() + 8192);
  if (there.ok() && *there == contents) return absl::OkStatus();
  return WriteFileAtomically(path, contents);
}

}  // namespace

absl::Status CheckInstallFolder(const std::string& dir,
                                const InstallOrigin* origin) {
  const InstalledPaths paths(dir);
  std::error_code error;
  fs::directory_iterator entries(dir, error);
  if (error == std::errc::no_such_file_or_directory) return absl::OkStatus();
  if (error) return ErrnoStatus(error.value(), "list", dir);
  ASSIGN_OR_RETURN(const ModelLayout layout, LayoutOfModel(dir));
  if (layout == ModelLayout::kReleased) {
    for (const fs::directory_entry& entry : entries) {
      const std::string name = entry.path().filename().string();
      if (IsBeginning(name)) continue;
      return absl::InvalidArgumentError(fmt::format(
          "{} is not empty (it holds {}) and no installation of deltafin: "
          "choose a new or empty folder",
          dir, name));
    }
    return absl::OkStatus();
  }
  if (origin == nullptr || !fs::exists(paths.source(), error)) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const InstallOrigin before, ReadInstallOrigin(paths));
  if (before.name() == origin->name()) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "{} was begun from {}, not from {}: go on with `deltafin setup --resume "
      "--dir {}`, or choose another folder",
      dir, before.name(), origin->name(), dir));
}

absl::StatusOr<std::unique_ptr<ModelInstaller>> ModelInstaller::Prepare(
    const std::string& dir, OpenedSource source, InstallOptions options) {
  RETURN_IF_ERROR(CheckInstallFolder(dir, &source.origin));
  std::unique_ptr<ModelInstaller> installer(
      new ModelInstaller(dir, std::move(source), std::move(options)));
  RETURN_IF_ERROR(installer->MakePlan());
  return installer;
}

ModelInstaller::ModelInstaller(const std::string& dir, OpenedSource source,
                               InstallOptions options)
    : paths_(dir),
      opened_(std::move(source)),
      options_(std::move(options)),
      source_(*opened_.source) {}

const SourceFile* ModelInstaller::FindFile(const std::string& name) const {
  const auto found =
      std::ranges::lower_bound(source_.files(), name, {}, &SourceFile::name);
  return found == source_.files().end() || found->name != name ? nullptr
                                                               : &*found;
}

absl::Status ModelInstaller::MakePlan() {
  uint64_t small_bytes = 0;
  for (const SmallFile& small : kSmallFiles) {
    const SourceFile* file = FindFile(std::string(small.name));
    if (file != nullptr) {
      small_files_.push_back(*file);
      small_bytes += file->bytes;
    } else if (small.required) {
      return absl::NotFoundError(
          fmt::format("{} has no file {}: it holds no model as Kimi K3 is "
                      "released",
                      source_.name(), small.name));
    }
  }
  const SourceFile& config = small_files_.front();
  if (config.bytes > kMaxConfigBytes) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: {} has {} bytes", source_.name(), kConfig, config.bytes));
  }
  std::string json(config.bytes, '\0');
  RETURN_IF_ERROR(source_.Read(
      config.name, 0, {reinterpret_cast<uint8_t*>(json.data()), json.size()}));
  absl::StatusOr<ModelSpec> spec = ModelSpec::Parse(json);
  if (!spec.ok()) {
    return AddContext(spec.status(),
                      fmt::format("{}: {}", source_.name(), kConfig));
  }
  spec_ = *std::move(spec);
  plan_ = PlanInstall(spec_, small_bytes, opened_.origin.experts);
  plan_.reserve_bytes = options_.reserve_bytes;
  RETURN_IF_ERROR(MeasureDrive(paths_.dir(), plan_));
  return plan_.Check(paths_.dir());
}

absl::Status ModelInstaller::Run() {
  ASSIGN_OR_RETURN(const FolderLock lock,
                   FolderLock::Take(paths_.dir(), "deltafin setup"));
  RETURN_IF_ERROR(ClaimFolder());
  RETURN_IF_ERROR(
      InstallAll(options_.check_experts ? Check::kExperts : Check::kNone));
  if (!options_.compare_shards) return absl::OkStatus();
  ASSIGN_OR_RETURN(auto differences, FindDifferences());
  if (differences.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(DropShards(differences));
  RETURN_IF_ERROR(InstallAll(Check::kNone));
  ASSIGN_OR_RETURN(differences, FindDifferences());
  if (differences.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(DropShards(differences));
  return absl::DataLossError(fmt::format(
      "{}: {} {}; it came twice like that from {} and was removed: the source "
      "or the way from it is damaged",
      paths_.dir(), differences[0].shard, differences[0].problem,
      source_.name()));
}

absl::Status ModelInstaller::InstallAll(Check check) {
  RETURN_IF_ERROR(RemoveDamaged());
  RETURN_IF_ERROR(InstallSmallFiles());
  RETURN_IF_ERROR(InstallManifest());
  RETURN_IF_ERROR(InstallHeaders());
  RETURN_IF_ERROR(InstallSpine());
  RETURN_IF_ERROR(SealFiles());
  return InstallExperts(check);
}

absl::Status ModelInstaller::ClaimFolder() {
  std::error_code error;
  for (const std::string& folder :
       {paths_.dir(), paths_.spine_folder(), paths_.header_folder()}) {
    RemoveAbandonedFiles(folder);
  }
  RETURN_IF_ERROR(
      WriteUnlessSame(paths_.format(), std::string(InstalledPaths::kFormat)));
  for (const std::string& folder :
       {paths_.spine_folder(), paths_.header_folder()}) {
    fs::create_directories(folder, error);
    if (error) return ErrnoStatus(error.value(), "make folder", folder);
  }
  return WriteUnlessSame(paths_.source(), opened_.origin.Text());
}

absl::Status ModelInstaller::InstallExperts(Check check) {
  ASSIGN_OR_RETURN(const Manifest manifest,
                   ManifestOfDirectory(paths_.dir(), "", {}));
  if (check == Check::kExperts) {
    RETURN_IF_ERROR(CompareAllAgain());
    RETURN_IF_ERROR(RemoveUnreadableIndexes(paths_.experts_folder(), spec_));
  }
  RecordStoreOptions record_options;
  record_options.reserve_bytes = options_.reserve_bytes;
  record_options.program = "deltafin setup";
  ASSIGN_OR_RETURN(const std::unique_ptr<RecordStore> records,
                   RecordStore::Open(paths_.experts_folder(),
                                     RecordModel::Of(spec_, manifest.Digest()),
                                     record_options));
  const ExpertInstallOptions install = {options_.parallel, options_.progress,
                                        options_.cancelled};
  if (check == Check::kExperts) {
    RETURN_IF_ERROR(DropDamagedSlices(*records, install));
  }
  if (opened_.origin.experts == InstallOrigin::Experts::kOnDemand) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(std::shared_ptr<const ShardTable> table,
                   ShardTable::Load(paths_, manifest));
  RETURN_IF_ERROR(ForgetIncompleteShards(*records, *table));
  SourceStore store(spec_, [&]() -> absl::StatusOr<ExpertSource> {
    return ExpertSource{opened_.source, table};
  });
  return InstallMissingExperts(store, *records, install);
}

absl::Status ModelInstaller::CheckCancelled() const {
  if (!options_.cancelled || !options_.cancelled()) return absl::OkStatus();
  return absl::CancelledError("cancelled");
}

void ModelInstaller::Tell(std::string_view step, uint64_t done,
                          uint64_t total) const {
  if (options_.progress) options_.progress(step, done, total);
}

}  // namespace deltafin
