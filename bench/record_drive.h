// bench/record_drive.h
//
// Full-size expert records on a drive for storage_tiers, and the reads that
// the record store is compared with.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "bench/sample_record.h"
#include "expert_node/storage/record_store.h"

namespace deltafin::bench {

inline constexpr int kExpertsPerLayer = 16;  // what a token reads of a layer
inline constexpr double kLayerBytes = 17547264.0 * kExpertsPerLayer;

RecordModel BenchModel(int num_layers);

// Installs generated experts in every layer; returns bytes per second.
double InstallRecords(RecordStore& store);

struct Measured {
  double wall_s = 0;
  double cpu_s = 0;  // of the whole process
};
Measured Measure(const std::function<void()>& work);
// CPU seconds of the calling thread so far.
double ThreadCpu();

// O_DIRECT preads of a layer's file: what the drive gives to whoever does
// nothing else. Thread-safe.
class PlainReader {
 public:
  explicit PlainReader(const std::string& path);
  ~PlainReader();
  PlainReader(const PlainReader&) = delete;
  PlainReader& operator=(const PlainReader&) = delete;

  // Slices of an expert's record with one request. REQUIRES: `out` is on a
  // page.
  void Read(int expert, SliceRun run, uint8_t* out) const;

 private:
  int fd_;
};

// The share of a file's pages that the page cache holds.
double CachedShare(const std::string& path);

// The share of [at, at + size) that lies on huge pages, as the system tells;
// at the start of a mapping. A direct read prepares others page by page.
double HugePageShare(const void* at, size_t size);

// Seconds to touch every page of the file through a cold mapping.
double FaultThroughMapping(const std::string& path);

// Ends the program where a status is not OK.
void Require(const absl::Status& status);

}  // namespace deltafin::bench
