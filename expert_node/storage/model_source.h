// expert_node/storage/model_source.h
//
// Where the released files of a model can be read: a directory, or a revision
// of a repository. What is installed or fetched comes through here.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace deltafin {

struct SourceFile {
  std::string name;  // relative path, '/' between parts
  uint64_t bytes = 0;
  std::string sha256;  // lower-case hex; empty where the source tells none
};

class ModelSource {
 public:
  virtual ~ModelSource() = default;

  // For messages: the directory, or REPO@REVISION.
  virtual const std::string& name() const = 0;

  // Every file of the revision, sorted by name.
  virtual const std::vector<SourceFile>& files() const = 0;

  // Reads [offset, offset + out.size()) of `file`. Thread-safe; blocks until
  // all bytes are there. Errors, each naming source, file and range: NOT_FOUND,
  // OUT_OF_RANGE, DATA_LOSS (answers that are not the wanted bytes, a file that
  // changed meanwhile), PERMISSION_DENIED, UNAVAILABLE; `out` is then
  // undefined.
  virtual absl::Status Read(const std::string& file, uint64_t offset,
                            std::span<uint8_t> out) = 0;
};

}  // namespace deltafin
