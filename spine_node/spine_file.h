// spine_node/spine_file.h
//
// One unit of an int8 spine on disk, "layer-07.spine" or "head.spine": made
// once from the released rows (docs/numerics.md section 5), checked on every
// load.
//
//   0     header of 4,096 bytes, little-endian, the rest zero:
//         0   8 bytes  "DFSPINE\0"
//         8   u32      format version, 1
//         12  u32      piece size, 4,194,304
//         16  u64      payload size
//         24  16 bytes layout digest: tensors, shapes and places in the payload
//         40  16 bytes source digest: the shards it was made from
//         56  16 bytes payload digest
//         72  16 bytes XXH3-128 of the 72 bytes before
//   4096  payload: per matrix its int8 tiles, then one f32 scale a row, each
//         starting on 64 bytes
//
// All digests are XXH3-128 (low word first); the payload digest is that of the
// digests of its pieces, so that threads can share it. A file appears under its
// name when it is complete and on disk.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "common/base/digest.h"
#include "common/base/thread_pool.h"
#include "spine_node/unit_layout.h"

namespace deltafin {

inline constexpr uint64_t kSpineFileHeaderBytes = 4096;

// What a file must have been made from and for.
struct SpineFileKey {
  uint64_t payload_bytes = 0;
  Xxh128 layout;
  Xxh128 source;

  friend bool operator==(const SpineFileKey&, const SpineFileKey&) = default;
};

// Digest of the int8 matrices of a unit and where they lie.
Xxh128 LayoutDigest(const UnitLayout& layout);

// Reads the header alone. Errors: NOT_FOUND; FAILED_PRECONDITION when it was
// made for another model or by another version; DATA_LOSS when damaged.
absl::Status CheckSpineFile(const std::string& path, const SpineFileKey& key);

// Reads the payload into `out` (key.payload_bytes) and checks its digest.
// Blocks on disk. Errors: those of CheckSpineFile; `out` is then undefined.
absl::Status ReadSpineFile(const std::string& path, const SpineFileKey& key,
                           ThreadPool& threads, std::span<uint8_t> out);

// Writes the file, replacing one of that name. Blocks on disk. Errors: those of
// the file system, with the path; nothing appears then.
absl::Status WriteSpineFile(const std::string& path, const SpineFileKey& key,
                            ThreadPool& threads,
                            std::span<const uint8_t> payload);

}  // namespace deltafin
