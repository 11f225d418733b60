// The part of an installation that is files: all but the experts.

#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "common/base/file_io.h"
#include "common/base/log.h"
#include "common/base/manifest.h"
#include "common/base/status_macros.h"
#include "common/base/tensor_names.h"
#include "expert_node/storage/file_download.h"
#include "expert_node/storage/known_release.h"
#include "expert_node/storage/model_installer.h"
#include "expert_node/storage/shard_table.h"
#include "expert_node/storage/source_digests.h"
#include "expert_node/storage/spine_source.h"

namespace deltafin {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxIndexBytes = uint64_t{1} << 30;
constexpr uint64_t kMaxListBytes = uint64_t{64} << 20;
constexpr uint64_t kMaxHeaderBytes = uint64_t{1} << 30;

absl::StatusOr<Manifest> ReadList(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxListBytes));
  absl::StatusOr<Manifest> list = Manifest::Parse(text);
  if (!list.ok()) return AddContext(list.status(), path);
  return list;
}

// Every tensor of the model is in the shards, as config.json says.
absl::Status CheckTable(const ModelSpec& spec, const ShardTable& table) {
  const auto check = [&](std::span<const TensorSpec> tensors) -> absl::Status {
    for (const TensorSpec& tensor : tensors) {
      RETURN_IF_ERROR(table.Find(tensor).status());
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(check(GlobalTensors(spec)));
  for (int layer = 0; layer < spec.num_hidden_layers; ++layer) {
    RETURN_IF_ERROR(check(LayerTensors(spec, layer)));
    if (!spec.is_moe(layer)) continue;
    for (int expert = 0; expert < spec.num_experts; ++expert) {
      RETURN_IF_ERROR(check(ExpertTensors(spec, {layer, expert})));
    }
  }
  return absl::OkStatus();
}

// The first bytes of a shard, up to its tensors.
absl::StatusOr<std::string> ReadShardHeader(ModelSource& source,
                                            const SourceFile& shard) {
  uint64_t json_bytes = 0;
  std::string header(sizeof(json_bytes), '\0');
  const auto bytes = [&](size_t begin) {
    return std::span(reinterpret_cast<uint8_t*>(header.data()), header.size())
        .subspan(begin);
  };
  RETURN_IF_ERROR(source.Read(shard.name, 0, bytes(0)));
  std::memcpy(&json_bytes, header.data(), sizeof(json_bytes));
  if (shard.bytes < sizeof(json_bytes) ||
      json_bytes > shard.bytes - sizeof(json_bytes) ||
      json_bytes > kMaxHeaderBytes) {
    return absl::InvalidArgumentError(
        fmt::format("{}/{}: the header claims {} bytes of a file of {}",
                    source.name(), shard.name, json_bytes, shard.bytes));
  }
  header.resize(sizeof(json_bytes) + json_bytes);
  RETURN_IF_ERROR(
      source.Read(shard.name, sizeof(json_bytes), bytes(sizeof(json_bytes))));
  return header;
}

}  // namespace

absl::Status ModelInstaller::Download(ModelSource& from, const SourceFile& file,
                                      const std::string& path,
                                      std::string_view step) {
  DownloadOptions options;
  options.parallel = options_.parallel;
  options.cancelled = options_.cancelled;
  options.progress = [this, step](uint64_t done, uint64_t total) {
    Tell(step, done, total);
  };
  return DownloadFile(from, file, path, options);
}

absl::Status ModelInstaller::RemoveDamaged() {
  const absl::StatusOr<Manifest> files = ReadList(paths_.files());
  if (!files.ok()) return absl::OkStatus();  // made again at the end
  uint64_t total = 0;
  uint64_t done = 0;
  for (const ManifestEntry& entry : files->entries) total += entry.bytes;
  for (const ManifestEntry& entry : files->entries) {
    RETURN_IF_ERROR(CheckCancelled());
    const std::string path = paths_.dir() + "/" + entry.file;
    const absl::StatusOr<std::string> sha256 =
        Sha256OfFile(path, [&](uint64_t bytes) {
          done += bytes;
          Tell("checking what is there", done, total);
        });
    if (sha256.ok() && *sha256 == entry.sha256) continue;
    refetched_.push_back(entry);
    std::error_code error;
    const bool removed = fs::remove(path, error);
    spdlog::warn("{} {}; fetching it again", path,
                 removed ? "is damaged" : "is missing");
  }
  return absl::OkStatus();
}

absl::Status ModelInstaller::InstallSmallFiles() {
  bool is_k3 = IsKnownRelease(opened_.origin.revision.repository,
                              opened_.origin.revision.revision);
  for (SourceFile& file : small_files_) {
    RETURN_IF_ERROR(CheckCancelled());
    const std::string path = paths_.dir() + "/" + file.name;
    RETURN_IF_ERROR(Download(source_, file, path, file.name));
    ASSIGN_OR_RETURN(file.sha256, Sha256OfFile(path, {}));
    if (file.name == "config.json") {
      is_k3 = is_k3 || IsKimiK3Config(file.bytes, file.sha256);
    }
    if (!is_k3) continue;
    const absl::Status known =
        CheckKnownFile(file.name, file.bytes, file.sha256);
    if (known.ok()) continue;
    std::error_code error;
    fs::remove(path, error);
    return AddContext(known, source_.name());
  }
  return absl::OkStatus();
}

// The files of a model's identity: config, index and the shards with text.
absl::StatusOr<std::vector<SourceFile>> ModelInstaller::FilesOfManifest()
    const {
  ASSIGN_OR_RETURN(const std::string json,
                   ReadFile(paths_.index(), kMaxIndexBytes));
  const auto index = Checkpoint::ParseIndex(json);
  if (!index.ok()) return AddContext(index.status(), paths_.index());
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : *index) shards.insert(shard);
  std::vector<SourceFile> files;
  for (const SourceFile& file : small_files_) {
    if (file.name == "config.json" || file.name.ends_with(".index.json")) {
      files.push_back(file);
    }
  }
  for (const std::string& shard : shards) {
    const SourceFile* file = FindFile(shard);
    if (file == nullptr) {
      return absl::NotFoundError(fmt::format(
          "{} has no file {}, which its index names", source_.name(), shard));
    }
    files.push_back(*file);
  }
  std::ranges::sort(files, {}, &SourceFile::name);
  return files;
}

absl::Status ModelInstaller::InstallManifest() {
  if (ReadList(paths_.manifest()).ok()) return absl::OkStatus();
  ASSIGN_OR_RETURN(std::vector<SourceFile> files, FilesOfManifest());
  RETURN_IF_ERROR(FillDigests(
      source_, files, options_.parallel,
      [this](uint64_t done, uint64_t total) {
        Tell("reading the files for the model's identity", done, total);
      },
      options_.cancelled));
  Manifest manifest;
  for (const SourceFile& file : files) {
    manifest.entries.push_back({file.name, file.bytes, file.sha256});
  }
  return WriteFileAtomically(paths_.manifest(), manifest.Text());
}

// No digest is known of a header, but it must fit the model: one that does not
// may have changed on its way.
absl::Status ModelInstaller::InstallHeaders() {
  for (bool again = false;; again = true) {
    absl::Status fits = FetchHeaders();
    if (!fits.ok() && !absl::IsInvalidArgument(fits)) return fits;
    if (fits.ok()) fits = CheckHeaders();
    // Once sealed they are what they were, and it is the source that differs.
    if (fits.ok() || ReadList(paths_.files()).ok()) return fits;
    RETURN_IF_ERROR(RemoveHeaders());
    if (again) return fits;
    spdlog::warn("{}; fetching the shards' headers again",
                 std::string(fits.message()));
  }
}

absl::Status ModelInstaller::CheckHeaders() const {
  ASSIGN_OR_RETURN(const Manifest manifest, ReadList(paths_.manifest()));
  ASSIGN_OR_RETURN(const std::unique_ptr<ShardTable> table,
                   ShardTable::Load(paths_, manifest));
  return AddContext(
      CheckTable(spec_, *table),
      source_.name() + ": config.json and the shards do not agree");
}

absl::Status ModelInstaller::RemoveHeaders() {
  std::error_code error;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(paths_.header_folder(), error)) {
    fs::remove(entry.path(), error);
    if (error) return ErrnoStatus(error.value(), "remove", entry.path());
  }
  if (error) return ErrnoStatus(error.value(), "list", paths_.header_folder());
  return absl::OkStatus();
}

absl::Status ModelInstaller::FetchHeaders() {
  ASSIGN_OR_RETURN(const Manifest manifest, ReadList(paths_.manifest()));
  for (const ManifestEntry& entry : manifest.entries) {
    RETURN_IF_ERROR(CheckCancelled());
    const std::string path = paths_.header(entry.file);
    std::error_code error;
    if (!entry.file.ends_with(".safetensors") || fs::exists(path, error)) {
      continue;
    }
    ASSIGN_OR_RETURN(
        const std::string header,
        ReadShardHeader(source_, {entry.file, entry.bytes, entry.sha256}));
    RETURN_IF_ERROR(ParseShardHeader(entry.file, entry.bytes, header).status());
    RETURN_IF_ERROR(WriteFileAtomically(path, header));
  }
  return absl::OkStatus();
}

absl::Status ModelInstaller::InstallSpine() {
  ASSIGN_OR_RETURN(const Manifest manifest, ReadList(paths_.manifest()));
  ASSIGN_OR_RETURN(const std::unique_ptr<ShardTable> table,
                   ShardTable::Load(paths_, manifest));
  ASSIGN_OR_RETURN(const std::unique_ptr<SpineSource> spine,
                   SpineSource::Create(source_, *table));
  uint64_t total = 0;
  uint64_t before = 0;
  for (const SourceFile& file : spine->files()) total += file.bytes;
  for (const SourceFile& file : spine->files()) {
    DownloadOptions options;
    options.parallel = options_.parallel;
    options.cancelled = options_.cancelled;
    options.progress = [&](uint64_t done, uint64_t bytes) {
      Tell(fmt::format(
               "spine, {}: {:.0f} %", file.name,
               100.0 * static_cast<double>(done) / static_cast<double>(bytes)),
           before + done, total);
    };
    RETURN_IF_ERROR(DownloadFile(
        *spine, file, paths_.spine_folder() + "/" + file.name, options));
    before += file.bytes;
  }
  return absl::OkStatus();
}

absl::Status ModelInstaller::SealFiles() {
  if (ReadList(paths_.files()).ok()) return CheckRefetched();
  std::vector<std::string> names = {"manifest"};
  for (const SourceFile& file : small_files_) names.push_back(file.name);
  ASSIGN_OR_RETURN(const Manifest manifest, ReadList(paths_.manifest()));
  for (const ManifestEntry& entry : manifest.entries) {
    if (!entry.file.ends_with(".safetensors")) continue;
    names.push_back("headers/" + entry.file + ".header");
    std::error_code error;
    const std::string spine = "spine/" + entry.file;
    if (fs::exists(paths_.dir() + "/" + spine, error)) names.push_back(spine);
  }
  std::ranges::sort(names);
  Manifest sealed;
  for (const std::string& name : names) {
    RETURN_IF_ERROR(CheckCancelled());
    const std::string path = paths_.dir() + "/" + name;
    std::error_code error;
    ManifestEntry entry{name, fs::file_size(path, error), ""};
    ASSIGN_OR_RETURN(entry.sha256, Sha256OfFile(path, {}));
    sealed.entries.push_back(std::move(entry));
  }
  return WriteFileAtomically(paths_.files(), sealed.Text());
}

absl::Status ModelInstaller::CheckRefetched() const {
  for (const ManifestEntry& entry : refetched_) {
    const std::string path = paths_.dir() + "/" + entry.file;
    ASSIGN_OR_RETURN(const std::string sha256, Sha256OfFile(path, {}));
    if (sha256 == entry.sha256) continue;
    return absl::DataLossError(fmt::format(
        "{} has the SHA-256 {} now and had {} when the model was installed: {} "
        "is not what it was",
        path, sha256, entry.sha256, source_.name()));
  }
  return absl::OkStatus();
}

}  // namespace deltafin
