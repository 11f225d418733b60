// expert_node/disk_measurement.h
//
// `deltafin-node --measure-disk`: how fast the drive with a model's experts
// reads, at first and when it has worked for a while.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace deltafin {

struct DiskRates {
  double first_second = 0;  // bytes a second
  double sustained = 0;     // in the second half of the time
  bool direct = true;  // false: some reads may have come from the page cache
};

// Reads the released shards or the records of experts in a folder one after the
// other, again from the first when all are read, past the page cache, in pieces
// of 4 MiB (less where the bytes on the drive end), four at once. Blocks for
// `duration`. Errors: NOT_FOUND where there are none; those of DirectReader.
absl::StatusOr<DiskRates> MeasureDisk(const std::string& dir,
                                      absl::Duration duration);

// The whole command: measures, prints both rates to standard output, keeps the
// sustained one in the data folder unless that is empty or the file system has
// no direct reads. Errors: those of MeasureDisk and DataFolder.
absl::Status RunDiskMeasurement(const std::string& dir,
                                const std::string& data_dir,
                                absl::Duration duration);

}  // namespace deltafin
