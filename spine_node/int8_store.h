// spine_node/int8_store.h
//
// The folder of an int8 spine: finds or makes it. It lies in the model folder
// or, where that cannot be written and holds no complete one, in the cache
// folder. Processes that would make the same spine wait for each other. Not
// thread-safe.
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

class Int8Store {
 public:
  // Chooses the folder for these units. If files are missing, checks the free
  // space, takes the folder's lock (waits while another process makes the same
  // spine) and removes what an interrupted process left.
  // Errors: RESOURCE_EXHAUSTED with the bytes needed and free;
  // FAILED_PRECONDITION when no folder can be written.
  static absl::StatusOr<Int8Store> Open(const SpineOptions& options,
                                        const Checkpoint& checkpoint,
                                        std::span<const UnitLayout> units);

  const std::string& folder() const { return folder_; }

  // Fills memory.rows_int8 from the unit's file. A file that is missing,
  // damaged or of other weights is made (again) and kept. Blocks on disk.
  absl::Status LoadOrMake(const UnitLayout& unit, UnitLoader& loader,
                          WeightMemory& memory);

 private:
  Int8Store(const Checkpoint& checkpoint, ThreadPool& threads)
      : checkpoint_(&checkpoint), threads_(&threads) {}

  std::string FilePath(const UnitLayout& unit) const;
  absl::StatusOr<SpineFileKey> Key(const UnitLayout& unit) const;
  absl::StatusOr<uint64_t> MissingBytes(
      std::span<const UnitLayout> units) const;
  absl::Status PrepareToMake(std::span<const UnitLayout> units);

  const Checkpoint* checkpoint_;
  ThreadPool* threads_;
  std::string folder_;
  FileDescriptor lock_;  // held while files may be made
};

}  // namespace deltafin
