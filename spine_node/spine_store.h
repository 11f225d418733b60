// spine_node/spine_store.h
//
// The folder of the spine files of one precision: finds or makes them. It lies
// in the model folder or, where that cannot be written and lacks some, in the
// cache folder. Processes that would make the same files wait for each other.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/file_io.h"
#include "common/base/safetensors.h"
#include "spine_node/options.h"
#include "spine_node/spine_file.h"
#include "spine_node/unit_layout.h"
#include "spine_node/unit_loader.h"

namespace deltafin {

class SpineStore {
 public:
  // Chooses the folder for the files of these units. If some are missing,
  // checks the free space, takes the folder's lock (waits while another process
  // makes the same files) and removes what an interrupted process left.
  // Errors: RESOURCE_EXHAUSTED with the bytes needed and free;
  // FAILED_PRECONDITION when no folder can be written.
  static absl::StatusOr<SpineStore> Open(const SpineOptions& options,
                                         const Checkpoint& checkpoint,
                                         std::span<const UnitLayout> units);

  const std::string& folder() const { return folder_; }

  // Fills `rows` from the unit's file. A file that is missing, damaged or of
  // other weights is made (again) and kept. REQUIRES: `rows` begins an
  // AlignedBuffer. Blocks on disk.
  absl::Status LoadOrMake(const UnitLayout& unit, UnitLoader& loader,
                          std::span<uint8_t> rows);
  // The unit's file, made if there is none or it is of other weights; what is
  // in it is not read. Blocks on disk while it is made.
  absl::StatusOr<std::unique_ptr<SpineFile>> FindOrMake(const UnitLayout& unit,
                                                        UnitLoader& loader);
  // Fills `rows` as LoadOrMake does of a file that is damaged: makes it again
  // and returns it, open. Waits for another process that makes files there.
  // Blocks on disk. Errors: those of the released files and of writing.
  absl::StatusOr<std::unique_ptr<SpineFile>> MakeAgain(const UnitLayout& unit,
                                                       UnitLoader& loader,
                                                       std::span<uint8_t> rows);
  // Lets other processes make files in the folder.
  void Unlock() { lock_ = FileDescriptor(); }

 private:
  SpineStore(const SpineOptions& options, const Checkpoint& checkpoint)
      : checkpoint_(&checkpoint),
        threads_(options.threads),
        what_(options.precision == SpinePrecision::kInt8
                  ? "the int8 spine"
                  : "the packed bf16 spine") {}

  std::string FilePath(const UnitLayout& unit) const;
  absl::StatusOr<SpineFileKey> Key(const UnitLayout& unit) const;
  absl::StatusOr<uint64_t> MissingBytes(
      std::span<const UnitLayout> units) const;
  absl::Status PrepareToMake(std::span<const UnitLayout> units);
  absl::Status Make(const UnitLayout& unit, const SpineFileKey& key,
                    UnitLoader& loader, std::span<uint8_t> rows);

  const Checkpoint* checkpoint_;
  ThreadPool* threads_;
  std::string what_;  // for messages
  std::string folder_;
  FileDescriptor lock_;  // held while files may be made
};

}  // namespace deltafin
