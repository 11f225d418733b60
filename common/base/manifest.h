// common/base/manifest.h
//
// Model identity: the sorted list (file, size, SHA-256) of config, index and
// shards, and its digest.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace deltafin {

struct ManifestEntry {
  std::string file;
  uint64_t bytes = 0;
  std::string sha256;  // lower-case hex
};

struct Manifest {
  std::vector<ManifestEntry> entries;  // sorted by file

  // SHA-256 (hex) over the entries' text form, one "file size sha256\n" a line:
  // the handshake digest.
  std::string Digest() const;
  // That text, and back. Errors: DATA_LOSS naming the line.
  std::string Text() const;
  static absl::StatusOr<Manifest> Parse(std::string_view text);
};

// What an installed model was told; or hashes the files of a directory of
// released files, once: results are cached by (size,
// mtime, inode) in `cache_file` (empty: no cache; a cache that cannot be
// written is no error). `progress(done_bytes, total_bytes)` may be empty.
// Errors: NOT_FOUND naming the missing file, DATA_LOSS on a read error.
absl::StatusOr<Manifest> ManifestOfDirectory(
    const std::string& model_dir, const std::string& cache_file,
    const std::function<void(uint64_t, uint64_t)>& progress);

// SHA-256 (hex) of a file, read past the page cache; `advance(bytes)` is told
// of each piece and may be empty.
absl::StatusOr<std::string> Sha256OfFile(
    const std::string& path, const std::function<void(uint64_t)>& advance);

}  // namespace deltafin
