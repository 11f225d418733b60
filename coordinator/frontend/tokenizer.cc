#include "coordinator/frontend/tokenizer.h"

#include <utility>

#include "common/base/file_io.h"
#include "common/base/status_macros.h"
#include "coordinator/frontend/byte_pair_encoder.h"
#include "coordinator/frontend/detokenizer.h"
#include "coordinator/frontend/pre_tokenizer.h"
#include "coordinator/frontend/utf8.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

// K3's is 2.8 MB.
constexpr uint64_t kMaxTokenizerBytes = uint64_t{256} << 20;

// Encodes one part of a slice, whose pieces never cross its ends.
class PartEncoder {
 public:
  PartEncoder(const Vocabulary& vocabulary, const CharText& text,
              std::vector<int32_t>& ids)
      : vocabulary_(vocabulary), text_(text), encoder_(vocabulary), ids_(ids) {}

  void Ordinary(size_t begin, size_t end) {
    while (begin < end) {
      const size_t piece_end = PieceEnd(text_, begin, end);
      encoder_.Encode(text_.Bytes(begin, piece_end), ids_);
      begin = piece_end;
    }
  }

  void WithControl(size_t begin, size_t end) {
    size_t ordinary = begin;
    while (begin < end) {
      const auto id = vocabulary_.ControlPrefix(text_.Bytes(begin, end));
      if (!id) {
        ++begin;
        continue;
      }
      Ordinary(ordinary, begin);
      ids_.push_back(*id);
      begin += CharsIn(vocabulary_.Bytes(*id));
      ordinary = begin;
    }
    Ordinary(ordinary, end);
  }

 private:
  static size_t CharsIn(std::string_view utf8) {
    size_t chars = 0;
    for (const char c : utf8) chars += (c & 0xC0) != 0x80;
    return chars;
  }

  const Vocabulary& vocabulary_;
  const CharText& text_;
  BytePairEncoder encoder_;
  std::vector<int32_t>& ids_;
};

void EncodeSlice(const Vocabulary& vocabulary, const CharText& text,
                 SegmentKind kind, std::vector<int32_t>& ids) {
  PartEncoder encoder(vocabulary, text, ids);
  size_t begin = 0;
  for (const size_t end : RunCuts(text)) {
    if (kind == SegmentKind::kControl) {
      encoder.WithControl(begin, end);
    } else {
      encoder.Ordinary(begin, end);
    }
    begin = end;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Load(
    const std::string& model_dir, int vocab_size) {
  ASSIGN_OR_RETURN(const std::string ranks,
                   ReadFile(model_dir + "/tiktoken.model", kMaxTokenizerBytes));
  ASSIGN_OR_RETURN(
      const std::string config,
      ReadFile(model_dir + "/tokenizer_config.json", kMaxTokenizerBytes));
  auto vocabulary = Vocabulary::Parse(ranks, config);
  if (!vocabulary.ok()) return AddContext(vocabulary.status(), model_dir);
  if (vocabulary->size() != vocab_size) {
    return absl::InvalidArgumentError(fmt::format(
        "{}/tiktoken.model: {} ranks and {} reserved tokens are not the "
        "vocab_size {} of config.json",
        model_dir, vocabulary->base(), kNumReservedTokens, vocab_size));
  }
  return std::make_unique<Tokenizer>(*std::move(vocabulary));
}

Tokenizer::Tokenizer(Vocabulary vocabulary)
    : vocabulary_(std::move(vocabulary)) {}

Tokenizer::~Tokenizer() = default;

void Tokenizer::MakeTries() const {
  std::call_once(tries_once_, [this] {
    trie_ = std::make_unique<const TokenTrie>(vocabulary_);
    plain_tokens_ = std::make_unique<const PlainTokens>(vocabulary_);
  });
}

const TokenTrie& Tokenizer::trie() const {
  MakeTries();
  return *trie_;
}

const PlainTokens& Tokenizer::plain_tokens() const {
  MakeTries();
  return *plain_tokens_;
}

absl::StatusOr<std::vector<int32_t>> Tokenizer::Encode(std::string_view utf8,
                                                       SegmentKind kind) const {
  if (const auto at = FirstInvalidUtf8(utf8)) {
    return absl::InvalidArgumentError(
        fmt::format("text is not UTF-8 at byte {}", *at));
  }
  std::vector<int32_t> ids;
  while (!utf8.empty()) {
    const CharText text = ReadChars(utf8, kMaxSliceChars);
    EncodeSlice(vocabulary_, text, kind, ids);
    utf8.remove_prefix(text.bytes.size());
  }
  return ids;
}

absl::StatusOr<std::vector<int32_t>> Tokenizer::Encode(
    std::span<const Segment> segments) const {
  std::vector<int32_t> ids;
  for (const Segment& segment : segments) {
    ASSIGN_OR_RETURN(const std::vector<int32_t> part,
                     Encode(segment.text, segment.kind));
    ids.insert(ids.end(), part.begin(), part.end());
  }
  return ids;
}

absl::StatusOr<std::string> Tokenizer::Decode(
    std::span<const int32_t> ids) const {
  Detokenizer detokenizer(vocabulary_);
  std::string text;
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocabulary_.size()) {
      return absl::InvalidArgumentError(
          fmt::format("token id {} is outside the vocabulary of {}", id,
                      vocabulary_.size()));
    }
    text += detokenizer.Add(id);
  }
  return text + detokenizer.Flush();
}

absl::StatusOr<int32_t> Tokenizer::ControlId(std::string_view spelling) const {
  if (const auto id = vocabulary_.FindControl(spelling)) return *id;
  return absl::FailedPreconditionError(
      fmt::format("this model's tokenizer has no reserved token {}, which the "
                  "chat format needs",
                  spelling));
}

}  // namespace deltafin
