// expert_node/storage/record_index_format.h
//
// The bytes of a layer-NN.index file (docs/expert_file.md): a header, then
// entries of one size. No I/O. Pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/digest.h"
#include "kernels/expert_weights.h"

namespace deltafin {

inline constexpr uint32_t kRecordFormatVersion = 1;
inline constexpr size_t kRecordHeaderBytes = 128;
// Bits of one machine word say which slices are held. K3 has 12.
inline constexpr int kMaxRecordSlices = 64;

struct RecordIndexHeader {
  int layer = 0;
  ExpertShape shape;
  int num_experts = 0;
  std::string manifest_digest;  // 64 hex digits
  friend bool operator==(const RecordIndexHeader&,
                         const RecordIndexHeader&) = default;
};

using Sha256Bytes = std::array<uint8_t, 32>;

// What happened to a run of slices of one expert.
struct RecordEntry {
  enum class Kind : uint32_t { kStored = 1, kRemoved = 2 };

  Kind kind = Kind::kStored;
  int expert = 0;  // and its slot: in this version they are the same number
  SliceRun run;
  // Of the released bytes of the whole expert.
  std::optional<Sha256Bytes> identity;
  std::vector<Xxh128> digests;  // one a slice; empty when removed
  friend bool operator==(const RecordEntry&, const RecordEntry&) = default;
};

struct RecordIndexContents {
  RecordIndexHeader header;
  std::vector<RecordEntry> entries;
  // Where entries lie that are neither whole nor the torn last one.
  std::vector<uint64_t> damaged;
  // The file without a torn last entry.
  uint64_t good_bytes = 0;
};

size_t RecordEntryBytes(const ExpertShape& shape);

std::string EncodeRecordHeader(const RecordIndexHeader& header);
// REQUIRES: the entry is within the header's bounds.
std::string EncodeRecordEntry(const RecordIndexHeader& header,
                              const RecordEntry& entry);

// Errors: FAILED_PRECONDITION for another format version, with both; DATA_LOSS
// when the header is not whole. Entries never fail it.
absl::StatusOr<RecordIndexContents> ParseRecordIndex(
    std::span<const uint8_t> bytes);

// FAILED_PRECONDITION naming what differs, with both values.
absl::Status CheckSameRecords(const RecordIndexHeader& found,
                              const RecordIndexHeader& wanted);

// Between 32 bytes and 64 lower-case hex digits; nullopt for any other text.
std::optional<Sha256Bytes> ParseSha256Hex(std::string_view hex);
std::string Sha256HexOf(const Sha256Bytes& bytes);

}  // namespace deltafin
