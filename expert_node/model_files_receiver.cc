#include "expert_node/model_files_receiver.h"

#include <algorithm>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "common/base/digest.h"
#include "common/base/file_io.h"
#include "common/base/status_macros.h"
#include "expert_node/storage/shard_table.h"

namespace deltafin {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxManifestBytes = uint64_t{64} << 20;
constexpr uint64_t kMaxFileBytes = uint64_t{1} << 30;
// What file systems take, with the ending of a header.
constexpr size_t kMaxNameBytes = 240;
constexpr std::string_view kManifest = "manifest";
constexpr std::string_view kConfig = "config.json";
constexpr std::string_view kIndex = "model.safetensors.index.json";
constexpr std::string_view kHeaderPrefix = "headers/";
constexpr std::string_view kHeaderSuffix = ".header";
constexpr std::string_view kShardSuffix = ".safetensors";

std::span<const uint8_t> BytesOf(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// Names become paths: a plain one has no folder in it, nor bytes that end or
// hide it.
bool IsPlainName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes && name[0] != '.' &&
         std::ranges::all_of(name, [](char c) {
           return c > ' ' && c < '\x7f' && c != '/' && c != '\\';
         });
}

absl::Status CheckManifest(const Manifest& manifest) {
  for (const ManifestEntry& entry : manifest.entries) {
    if (IsPlainName(entry.file)) continue;
    return absl::DataLossError(fmt::format(
        "the manifest names '{:.64}', no file of a model", entry.file));
  }
  return absl::OkStatus();
}

const ManifestEntry* EntryOf(const Manifest& manifest, std::string_view file) {
  const auto found =
      std::ranges::find(manifest.entries, file, &ManifestEntry::file);
  return found == manifest.entries.end() ? nullptr : &*found;
}

// As a coordinator names them, the manifest excepted.
std::vector<std::string> NeededFiles(const Manifest& manifest,
                                     bool with_shards) {
  std::vector<std::string> needed = {std::string(kConfig)};
  if (!with_shards) return needed;
  needed.emplace_back(kIndex);
  for (const ManifestEntry& entry : manifest.entries) {
    if (!entry.file.ends_with(kShardSuffix)) continue;
    needed.push_back(
        fmt::format("{}{}{}", kHeaderPrefix, entry.file, kHeaderSuffix));
  }
  return needed;
}

}  // namespace

absl::Status ModelFilesReceiver::Take(const v1::ModelFilePiece& piece) {
  if (contents_.empty()) {
    RETURN_IF_ERROR(Begin(piece));
  } else if (piece.name() != name_) {
    return absl::DataLossError(name_ + " ended early");
  }
  if (piece.data().size() > file_bytes_ - contents_.size() ||
      piece.data().empty()) {
    return absl::DataLossError(name_ + " is not as long as it said");
  }
  contents_ += piece.data();
  if (contents_.size() < file_bytes_) return absl::OkStatus();
  const std::string contents = std::exchange(contents_, std::string());
  return AddContext(Keep(contents), name_);
}

absl::Status ModelFilesReceiver::Begin(const v1::ModelFilePiece& piece) {
  const std::string_view name = piece.name();
  const uint64_t most = manifest_ ? kMaxFileBytes : kMaxManifestBytes;
  file_bytes_ = piece.file_bytes();
  if (file_bytes_ == 0 || file_bytes_ > most) {
    return absl::DataLossError(fmt::format(
        "{:.64} of {} bytes, at most {} are taken", name, file_bytes_, most));
  }
  const bool is_wanted =
      manifest_ ? wanted_.contains(std::string(name)) : name == kManifest;
  if (!is_wanted) {
    return absl::DataLossError(fmt::format(
        "'{:.64}' came out of order, twice, or is no file that a node needs",
        name));
  }
  name_ = name;
  return absl::OkStatus();
}

absl::Status ModelFilesReceiver::Keep(const std::string& contents) {
  if (!manifest_) return KeepManifest(contents);
  RETURN_IF_ERROR(name_.starts_with(kHeaderPrefix) ? CheckHeader(contents)
                                                   : CheckReleased(contents));
  RETURN_IF_ERROR(WriteFileAtomically(paths_.dir() + "/" + name_, contents));
  wanted_.erase(name_);
  return absl::OkStatus();
}

absl::Status ModelFilesReceiver::KeepManifest(const std::string& contents) {
  ASSIGN_OR_RETURN(Manifest manifest, Manifest::Parse(contents));
  RETURN_IF_ERROR(CheckManifest(manifest));
  const absl::StatusOr<Manifest> begun =
      KnownModel(paths_.dir(), /*with_shards=*/false);
  if (begun.ok() && begun->Digest() != manifest.Digest()) {
    return absl::FailedPreconditionError(fmt::format(
        "{} is of the model with the manifest digest {}, the coordinator "
        "serves {}; give the node another --data folder, or delete this one",
        paths_.dir(), begun->Digest(), manifest.Digest()));
  }
  is_complete_ = KnownModel(paths_.dir(), with_shards_).ok();
  for (std::string& name : NeededFiles(manifest, with_shards_)) {
    wanted_.insert(std::move(name));
  }
  manifest_ = std::move(manifest);
  return absl::OkStatus();
}

absl::Status ModelFilesReceiver::CheckReleased(
    const std::string& contents) const {
  const ManifestEntry* const entry = EntryOf(*manifest_, name_);
  if (entry == nullptr) return absl::DataLossError("not in the manifest");
  const std::string sha256 = Sha256Hex(BytesOf(contents));
  if (sha256 == entry->sha256 && contents.size() == entry->bytes) {
    return absl::OkStatus();
  }
  return absl::DataLossError(
      fmt::format("{} bytes with SHA-256 {}, the manifest says {} with {}",
                  contents.size(), sha256, entry->bytes, entry->sha256));
}

absl::Status ModelFilesReceiver::CheckHeader(
    const std::string& contents) const {
  std::string_view shard = name_;
  shard.remove_prefix(kHeaderPrefix.size());
  shard.remove_suffix(kHeaderSuffix.size());
  const ManifestEntry* const entry = EntryOf(*manifest_, shard);
  if (entry == nullptr) return absl::DataLossError("of no shard");
  return ParseShardHeader(entry->file, entry->bytes, contents).status();
}

absl::Status ModelFilesReceiver::Finish() {
  if (is_complete_) return absl::OkStatus();
  if (!manifest_ || !contents_.empty() || !wanted_.empty()) {
    return absl::DataLossError(
        fmt::format("the files ended early: {} has not come",
                    !contents_.empty() ? name_
                    : !wanted_.empty() ? *wanted_.begin()
                                       : std::string(kManifest)));
  }
  return WriteFileAtomically(paths_.manifest(), manifest_->Text());
}

absl::StatusOr<Manifest> KnownModel(const std::string& folder,
                                    bool with_shards) {
  const InstalledPaths paths(folder);
  ASSIGN_OR_RETURN(const std::string text,
                   ReadFile(paths.manifest(), kMaxManifestBytes));
  absl::StatusOr<Manifest> manifest = Manifest::Parse(text);
  if (!manifest.ok()) return AddContext(manifest.status(), paths.manifest());
  for (const std::string& name : NeededFiles(*manifest, with_shards)) {
    const std::string path = folder + "/" + name;
    std::error_code error;
    if (!fs::exists(path, error)) {
      return absl::NotFoundError(path + " is missing");
    }
  }
  return manifest;
}

}  // namespace deltafin
