// coordinator/frontend/vocabulary.h
//
// The tokens of a model: byte strings with ranks, and reserved control tokens
// (docs/model.md section 8). Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"

namespace deltafin {

// Control tokens after the ranks.
inline constexpr int kNumReservedTokens = 256;

class Vocabulary {
 public:
  // ranks: lines `base64(bytes) rank`, ranks 0, 1, 2, ... in file order;
  // tokenizer_config: JSON whose added_tokens_decoder renames reserved ids.
  // Errors: INVALID_ARGUMENT naming the line or key.
  static absl::StatusOr<Vocabulary> Parse(std::string_view ranks,
                                          std::string_view tokenizer_config);

  // Reserved ids begin here; ordinary text never yields them.
  int32_t base() const { return base_; }
  int32_t size() const { return base_ + kNumReservedTokens; }

  // The token's bytes: of a reserved id its spelling. REQUIRES: 0 <= id < size.
  std::string_view Bytes(int32_t id) const {
    return std::string_view(bytes_).substr(offsets_[id],
                                           offsets_[id + 1] - offsets_[id]);
  }

  std::optional<int32_t> FindRank(std::string_view bytes) const;
  std::optional<int32_t> FindControl(std::string_view spelling) const;

  // The reserved token whose spelling `text` begins with; of several the one
  // that sorts first.
  std::optional<int32_t> ControlPrefix(std::string_view text) const;

 private:
  Vocabulary() = default;

  absl::Status AddRanks(std::string_view ranks);
  absl::Status AddReserved(std::string_view tokenizer_config);
  absl::Status IndexReserved();
  void AddToken(std::string_view bytes);

  int32_t base_ = 0;
  std::string bytes_;            // of all tokens, by id
  std::vector<size_t> offsets_;  // [size + 1]
  absl::flat_hash_map<std::string, int32_t> ranks_;
  std::vector<int32_t> reserved_;  // ids in the order of their spellings
};

}  // namespace deltafin
