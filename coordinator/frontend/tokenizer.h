// coordinator/frontend/tokenizer.h
//
// Text to token ids and back, as K3's tokenizer does it (docs/model.md section
// 8). Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/frontend/plain_tokens.h"
#include "coordinator/frontend/token_trie.h"
#include "coordinator/frontend/vocabulary.h"

namespace deltafin {

// Who wrote a piece of text decides what its spellings mean.
enum class SegmentKind : uint8_t {
  kText,     // of users and models: yields ordinary tokens only
  kControl,  // of the chat format: reserved spellings become control tokens
};

struct Segment {
  std::string text;
  SegmentKind kind = SegmentKind::kText;
};

class Tokenizer {
 public:
  // Reads model_dir/tiktoken.model and tokenizer_config.json. vocab_size is the
  // model's, to which ranks and reserved tokens must add up. Errors: NOT_FOUND,
  // INVALID_ARGUMENT, both with the path.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(
      const std::string& model_dir, int vocab_size);

  explicit Tokenizer(Vocabulary vocabulary);
  ~Tokenizer();

  // The ids of a text. Errors: INVALID_ARGUMENT with the byte offset where
  // `utf8` is not UTF-8.
  absl::StatusOr<std::vector<int32_t>> Encode(
      std::string_view utf8, SegmentKind kind = SegmentKind::kText) const;

  // The ids of all segments, each encoded on its own.
  absl::StatusOr<std::vector<int32_t>> Encode(
      std::span<const Segment> segments) const;

  // The text of some ids; bytes that are not UTF-8 become U+FFFD. Errors:
  // INVALID_ARGUMENT naming an id that is out of range.
  absl::StatusOr<std::string> Decode(std::span<const int32_t> ids) const;

  const Vocabulary& vocabulary() const { return vocabulary_; }
  // Both are made on the first call of either, which takes some tenths of a
  // second at K3's vocabulary.
  const TokenTrie& trie() const;
  const PlainTokens& plain_tokens() const;

  // The reserved token spelled so. Errors: FAILED_PRECONDITION: this model has
  // no such token.
  absl::StatusOr<int32_t> ControlId(std::string_view spelling) const;

 private:
  void MakeTries() const;

  const Vocabulary vocabulary_;
  mutable std::once_flag tries_once_;
  mutable std::unique_ptr<const TokenTrie> trie_;
  mutable std::unique_ptr<const PlainTokens> plain_tokens_;
};

}  // namespace deltafin
