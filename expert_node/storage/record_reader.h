// expert_node/storage/record_reader.h
//
// One layer's records looked at without changing or locking anything, past the
// page cache: for checks. Thread-compatible.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/direct_reader.h"
#include "expert_node/storage/record_index_format.h"

namespace deltafin {

class RecordReader {
 public:
  // Errors: NOT_FOUND without an index; DATA_LOSS or FAILED_PRECONDITION for an
  // index without a readable header or of another model.
  static absl::StatusOr<RecordReader> Open(const std::string& folder,
                                           const RecordIndexHeader& header);

  // FOLDER/layer-NN.index and FOLDER/layer-NN.experts.
  static std::string IndexPath(const std::string& folder, int layer);
  static std::string DataPath(const std::string& folder, int layer);

  bool Holds(int expert, int slice) const {
    return !experts_[expert].empty() && experts_[expert][slice].has_value();
  }
  bool HoldsAll(int expert) const;
  // Of the released bytes, where all slices came together.
  const std::optional<Sha256Bytes>& identity(int expert) const {
    return identities_[expert];
  }
  // Offsets of entries that are not whole, the torn last one included.
  const std::vector<uint64_t>& damaged() const { return damaged_; }

  // The file is long enough for a held slice. Errors: DATA_LOSS.
  absl::Status CheckThere(int expert, int slice) const;
  // Reads a held slice and compares it with its digest; without a copy where
  // slice and `out` lie on pages. Errors: DATA_LOSS.
  absl::Status ReadSlice(int expert, int slice, std::span<uint8_t> out) const;

 private:
  explicit RecordReader(RecordIndexHeader header)
      : header_(std::move(header)),
        experts_(header_.num_experts),
        identities_(header_.num_experts) {}
  void Apply(const RecordEntry& entry);

  RecordIndexHeader header_;
  std::string data_path_;
  std::unique_ptr<DirectReader> data_;  // null where there is no file
  // By expert and slice; an expert of which nothing was heard is empty.
  std::vector<std::vector<std::optional<Xxh128>>> experts_;
  std::vector<std::optional<Sha256Bytes>> identities_;
  std::vector<uint64_t> damaged_;
};

}  // namespace deltafin
