#include "common/base/manifest.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <sstream>
#include <tuple>

#include "common/base/aligned_buffer.h"
#include "common/base/digest.h"
#include "common/base/direct_reader.h"
#include "common/base/file_io.h"
#include "common/base/model_directory.h"
#include "common/base/safetensors.h"
#include "common/base/status_macros.h"

namespace deltafin {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{8} << 20;
constexpr uint64_t kMaxCacheBytes = uint64_t{64} << 20;
constexpr const char* kIndexFile = "model.safetensors.index.json";

// What must be unchanged for a cached digest to hold.
struct FileIdentity {
  std::string path;
  uint64_t bytes = 0;
  int64_t mtime_ns = 0;
  uint64_t inode = 0;
  uint64_t device = 0;
  friend auto operator<=>(const FileIdentity&, const FileIdentity&) = default;
};

absl::StatusOr<FileIdentity> IdentityOf(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return ErrnoStatus(errno, "stat", path);
  return FileIdentity{
      path, static_cast<uint64_t>(info.st_size),
      int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec,
      info.st_ino, info.st_dev};
}

// Lines "sha256 bytes mtime_ns inode device path". What does not parse is
// skipped: the cache only saves time.
class DigestCache {
 public:
  explicit DigestCache(std::string path) : path_(std::move(path)) {
    if (path_.empty()) return;
    const absl::StatusOr<std::string> text = ReadFile(path_, kMaxCacheBytes);
    if (!text.ok()) return;
    std::istringstream lines(*text);
    std::string line;
    while (std::getline(lines, line)) AddLine(line);
  }

  const std::string* Find(const FileIdentity& file) const {
    const auto found = digests_.find(file);
    return found == digests_.end() ? nullptr : &found->second;
  }

  void Add(const FileIdentity& file, const std::string& sha256) {
    std::erase_if(digests_, [&file](const auto& entry) {
      return entry.first.path == file.path;
    });
    digests_[file] = sha256;
    changed_ = true;
  }

  void Save() const {
    if (path_.empty() || !changed_) return;
    std::string text;
    for (const auto& [file, sha256] : digests_) {
      text += fmt::format("{} {} {} {} {} {}\n", sha256, file.bytes,
                          file.mtime_ns, file.inode, file.device, file.path);
    }
    // A cache that cannot be written is no error (manifest.h).
    WriteFileAtomically(path_, text).IgnoreError();
  }

 private:
  void AddLine(const std::string& line) {
    std::istringstream words(line);
    FileIdentity file;
    std::string sha256;
    if (!(words >> sha256 >> file.bytes >> file.mtime_ns >> file.inode >>
          file.device) ||
        sha256.size() != 64 || words.get() != ' ' ||
        !std::getline(words, file.path)) {
      return;
    }
    digests_[file] = sha256;
  }

  const std::string path_;
  std::map<FileIdentity, std::string> digests_;
  bool changed_ = false;
};

absl::StatusOr<std::vector<std::string>> FilesOfModel(
    const std::string& model_dir) {
  ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(model_dir));
  std::vector<std::string> files = checkpoint->shards();
  files.push_back("config.json");
  if (IdentityOf(model_dir + "/" + kIndexFile).ok()) {
    files.push_back(kIndexFile);
  }
  std::sort(files.begin(), files.end());
  return files;
}

bool IsSha256(std::string_view text) {
  return text.size() == 64 &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

absl::StatusOr<Manifest> InstalledManifest(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxCacheBytes));
  absl::StatusOr<Manifest> manifest = Manifest::Parse(text);
  if (!manifest.ok()) return AddContext(manifest.status(), path);
  return manifest;
}

}  // namespace

std::string Manifest::Text() const {
  std::string text;
  for (const ManifestEntry& entry : entries) {
    text += fmt::format("{} {} {}\n", entry.file, entry.bytes, entry.sha256);
  }
  return text;
}

std::string Manifest::Digest() const {
  const std::string text = Text();
  return Sha256Hex(
      {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

absl::StatusOr<Manifest> Manifest::Parse(std::string_view text) {
  Manifest manifest;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string line(text.substr(0, end));
    std::istringstream words(line);
    ManifestEntry entry;
    std::string rest;
    if (end == std::string_view::npos ||
        !(words >> entry.file >> entry.bytes >> entry.sha256) ||
        !IsSha256(entry.sha256) || words >> rest) {
      return absl::DataLossError(
          fmt::format("line {} is no \"file size sha256\": {}",
                      manifest.entries.size() + 1, line.substr(0, 200)));
    }
    manifest.entries.push_back(std::move(entry));
    text.remove_prefix(end + 1);
  }
  return manifest;
}

absl::StatusOr<Manifest> ManifestOfDirectory(
    const std::string& model_dir, const std::string& cache_file,
    const std::function<void(uint64_t, uint64_t)>& progress) {
  ASSIGN_OR_RETURN(const ModelLayout layout, LayoutOfModel(model_dir));
  if (layout == ModelLayout::kInstalled) {
    return InstalledManifest(InstalledPaths(model_dir).manifest());
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> files,
                   FilesOfModel(model_dir));
  std::vector<FileIdentity> identities;
  uint64_t total = 0;
  for (const std::string& file : files) {
    ASSIGN_OR_RETURN(identities.emplace_back(),
                     IdentityOf(model_dir + "/" + file));
    total += identities.back().bytes;
  }
  DigestCache cache(cache_file);
  uint64_t done = 0;
  const auto advance = [&](uint64_t bytes) {
    done += bytes;
    if (progress) progress(done, total);
  };
  Manifest manifest;
  for (size_t i = 0; i < files.size(); ++i) {
    const FileIdentity& identity = identities[i];
    std::string sha256;
    if (const std::string* cached = cache.Find(identity)) {
      sha256 = *cached;
      advance(identity.bytes);
    } else {
      ASSIGN_OR_RETURN(sha256, Sha256OfFile(identity.path, advance));
      cache.Add(identity, sha256);
    }
    manifest.entries.push_back({files[i], identity.bytes, sha256});
  }
  cache.Save();
  return manifest;
}

absl::StatusOr<std::string> Sha256OfFile(
    const std::string& path, const std::function<void(uint64_t)>& advance) {
  ASSIGN_OR_RETURN(const auto reader, DirectReader::Open(path));
  AlignedBuffer buffer;
  Sha256 sha;
  for (uint64_t at = 0; at < reader->file_bytes();) {
    const uint64_t bytes = std::min(kPieceBytes, reader->file_bytes() - at);
    ASSIGN_OR_RETURN(const auto piece, reader->Read(at, bytes, buffer));
    sha.Update(piece);
    if (advance) advance(bytes);
    at += bytes;
  }
  return sha.FinishHex();
}

}  // namespace deltafin
