#include "tests/testing/emulated_files.h"

#include <openssl/evp.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/base/check.h"
#include "common/base/file_io.h"
#include "common/base/status_macros.h"

namespace deltafin::testing {
namespace {

// Hex digest of `prefix` and the file's bytes.
absl::StatusOr<std::string> Digest(const std::string& path, uint64_t bytes,
                                   const EVP_MD* algorithm,
                                   const std::string& prefix) {
  ASSIGN_OR_RETURN(const FileDescriptor fd, OpenForReading(path));
  EVP_MD_CTX* const context = EVP_MD_CTX_new();
  CHECK(EVP_DigestInit_ex(context, algorithm, nullptr) == 1);
  EVP_DigestUpdate(context, prefix.data(), prefix.size());
  std::vector<uint8_t> buffer;
  absl::Status status;
  for (uint64_t at = 0; at < bytes && status.ok(); at += buffer.size()) {
    buffer.resize(std::min<uint64_t>(bytes - at, 1 << 20));
    status = ReadExactly(fd.get(), at, buffer, path);
    EVP_DigestUpdate(context, buffer.data(), buffer.size());
  }
  uint8_t digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_DigestFinal_ex(context, digest, &size);
  EVP_MD_CTX_free(context);
  RETURN_IF_ERROR(status);
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) {
    hex += fmt::format("{:02x}", digest[i]);
  }
  return hex;
}

}  // namespace

absl::StatusOr<std::vector<EmulatedFile>> ListEmulatedFiles(
    const std::string& directory, uint64_t lfs_from_bytes) {
  std::vector<EmulatedFile> files;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(directory, error)) {
    if (!entry.is_regular_file()) continue;
    EmulatedFile file;
    file.path = entry.path().string();
    file.name = std::filesystem::relative(entry.path(), directory).string();
    file.bytes = entry.file_size();
    file.lfs = file.bytes >= lfs_from_bytes;
    const std::string blob =
        "blob " + std::to_string(file.bytes) + std::string(1, '\0');
    ASSIGN_OR_RETURN(file.oid, Digest(file.path, file.bytes,
                                      file.lfs ? EVP_sha256() : EVP_sha1(),
                                      file.lfs ? "" : blob));
    files.push_back(std::move(file));
  }
  if (error) return absl::NotFoundError(directory + ": " + error.message());
  std::sort(files.begin(), files.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return files;
}

std::string TreeJson(const std::vector<EmulatedFile>& files, size_t first,
                     size_t count) {
  nlohmann::json entries = nlohmann::json::array();
  const size_t end = std::min(first + count, files.size());
  for (size_t i = std::min(first, end); i < end; ++i) {
    const EmulatedFile& file = files[i];
    nlohmann::json entry = {
        {"type", "file"}, {"path", file.name}, {"size", file.bytes}};
    entry["oid"] = file.lfs ? std::string(40, '0') : file.oid;
    if (file.lfs) {
      entry["lfs"] = {
          {"oid", file.oid}, {"size", file.bytes}, {"pointerSize", 134}};
    }
    entries.push_back(std::move(entry));
  }
  if (first == 0) {
    entries.push_back({{"type", "directory"},
                       {"path", "folder"},
                       {"size", 0},
                       {"oid", std::string(40, '0')}});
  }
  return entries.dump();
}

}  // namespace deltafin::testing
