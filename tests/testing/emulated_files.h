// tests/testing/emulated_files.h
//
// A directory as a repository of the Hub's emulator, and its JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace deltafin::testing {

struct EmulatedFile {
  std::string name;
  std::string path;
  uint64_t bytes = 0;
  bool lfs = false;
  std::string oid;  // SHA-256 of large files (LFS), git's blob id of others
};

// All files below `directory`, sorted; those of lfs_from_bytes and more are
// large ones. Reads every byte.
absl::StatusOr<std::vector<EmulatedFile>> ListEmulatedFiles(
    const std::string& directory, uint64_t lfs_from_bytes);

// Files [first, first + count) as the Hub's API lists them.
std::string TreeJson(const std::vector<EmulatedFile>& files, size_t first,
                     size_t count);

}  // namespace deltafin::testing
