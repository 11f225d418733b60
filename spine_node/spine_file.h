// spine_node/spine_file.h
//
// The rows of one unit of a spine on disk, "layer-07.spine" or "head.spine":
// the large matrices, int8 (docs/numerics.md section 5) or bf16, as kernels
// read them. Made once from the released rows, checked on every read.
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
//   4096  payload: per matrix its tiles, then, if int8, one f32 scale a row,
//         each starting on 64 bytes
//
// All digests are XXH3-128 (low word first); the payload digest is that of the
// digests of its pieces, so that threads can share it. A file appears under its
// name when it is complete and on disk.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/digest.h"
#include "common/base/direct_reader.h"
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

// Digest of the matrices in a unit's rows, their format and where they lie.
Xxh128 LayoutDigest(const UnitLayout& layout);

// Reads the header alone. Errors: NOT_FOUND; FAILED_PRECONDITION when it was
// made for another model or by another version; DATA_LOSS when damaged.
absl::Status CheckSpineFile(const std::string& path, const SpineFileKey& key);

// A spine file that is open, its header checked. Thread-safe.
class SpineFile {
 public:
  // Blocks on disk. Errors: those of CheckSpineFile.
  static absl::StatusOr<std::unique_ptr<SpineFile>> Open(
      const std::string& path, const SpineFileKey& key);

  const std::string& path() const { return reader_->path(); }
  uint64_t payload_bytes() const { return payload_bytes_; }
  int64_t num_pieces() const;
  // Memory for a payload that is read piece by piece: whole pages.
  static constexpr uint64_t BufferBytes(uint64_t payload_bytes) {
    return (payload_bytes + DirectReader::kAlignment - 1) /
           DirectReader::kAlignment * DirectReader::kAlignment;
  }
  uint64_t piece_bytes(int64_t index) const;

  // Reads a piece past the page cache to its place in `payload`. REQUIRES:
  // payload lies on a page and has BufferBytes of room. Errors: DATA_LOSS with
  // the path.
  absl::Status ReadPiece(int64_t index, uint8_t* payload) const;
  // Of a piece that was read there.
  Xxh128 DigestOfPiece(int64_t index, const uint8_t* payload) const;
  // Whether pieces with these digests are the payload. Errors: DATA_LOSS.
  absl::Status CheckPayload(std::span<const Xxh128> pieces) const;

 private:
  SpineFile() = default;

  std::unique_ptr<DirectReader> reader_;
  uint64_t payload_bytes_ = 0;
  Xxh128 payload_digest_;
};

// Reads the payload into `out` and checks its digest. REQUIRES: `out`, of
// key.payload_bytes, begins an AlignedBuffer. Blocks on disk. Errors: those of
// CheckSpineFile; `out` is then undefined.
absl::Status ReadSpineFile(const std::string& path, const SpineFileKey& key,
                           ThreadPool& threads, std::span<uint8_t> out);

// Writes the file, replacing one of that name. Blocks on disk. Errors: those of
// the file system, with the path; nothing appears then.
absl::Status WriteSpineFile(const std::string& path, const SpineFileKey& key,
                            ThreadPool& threads,
                            std::span<const uint8_t> payload);

}  // namespace deltafin
