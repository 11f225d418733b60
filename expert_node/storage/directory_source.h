// expert_node/storage/directory_source.h
//
// A directory of released files as a source. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/file_io.h"
#include "common/base/mutex.h"
#include "expert_node/storage/model_source.h"

namespace deltafin {

class DirectorySource : public ModelSource {
 public:
  // Lists the files directly in the folder; their digests are not known.
  // Errors: NOT_FOUND; INVALID_ARGUMENT for an installed model, which has
  // no released files.
  static absl::StatusOr<std::unique_ptr<DirectorySource>> Open(
      const std::string& dir);

  // The absolute path.
  const std::string& name() const override { return name_; }
  const std::vector<SourceFile>& files() const override { return files_; }
  absl::Status Read(const std::string& file, uint64_t offset,
                    std::span<uint8_t> out) override;

 private:
  DirectorySource(std::string name, std::vector<SourceFile> files)
      : name_(std::move(name)), files_(std::move(files)) {}
  absl::StatusOr<int> DescriptorOf(const SourceFile& file);

  const std::string name_;
  const std::vector<SourceFile> files_;
  Mutex mutex_;
  // Opened on first use; stay open.
  std::map<std::string, FileDescriptor> descriptors_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace deltafin
