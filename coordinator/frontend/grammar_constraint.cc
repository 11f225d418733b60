#include "coordinator/frontend/grammar_constraint.h"

#include <utility>

#include "common/base/status_macros.h"

namespace deltafin {
namespace {

void Allow(int32_t id, std::vector<uint64_t>& mask) {
  mask[id / 64] |= uint64_t{1} << (id % 64);
}

}  // namespace

absl::StatusOr<std::shared_ptr<GrammarConstraint>> GrammarConstraint::Create(
    std::shared_ptr<const ByteGrammar> grammar, const Tokenizer& tokenizer) {
  ASSIGN_OR_RETURN(const ChatTokens tokens, ChatTokens::Find(tokenizer));
  if (!tokenizer.trie().has_all_bytes()) {
    return absl::FailedPreconditionError(
        "answers in a given format need a vocabulary in which every byte is a "
        "token");
  }
  return std::shared_ptr<GrammarConstraint>(
      new GrammarConstraint(std::move(grammar), tokenizer, tokens));
}

GrammarConstraint::GrammarConstraint(std::shared_ptr<const ByteGrammar> grammar,
                                     const Tokenizer& tokenizer,
                                     const ChatTokens& tokens)
    : vocabulary_(tokenizer.vocabulary()),
      trie_(tokenizer.trie()),
      plain_tokens_(tokenizer.plain_tokens()),
      controls_({{tokens.open, kOpenSymbol},
                 {tokens.close, kCloseSymbol},
                 {tokens.sep, kSepSymbol},
                 {tokens.end_of_message, kEndOfMessageSymbol}}),
      states_(std::move(grammar)),
      state_(states_.start()),
      path_(trie_.depth() + 1) {}

absl::StatusOr<std::span<const uint64_t>> GrammarConstraint::Allowed() {
  if (state_ == GrammarStates::kDead) {
    return absl::InternalError("no token goes on with what was written");
  }
  if (const auto known = masks_.find(state_); known != masks_.end()) {
    return known->second;
  }
  const bool are_masks_full = masks_.size() == kMaxMasks;
  if (states_.size() > kMaxSize / 2 ||
      (are_masks_full && states_.is_out_of_rows())) {
    state_ = states_.ForgetOthers(state_);
    masks_.clear();
  }
  ASSIGN_OR_RETURN(Mask mask, MakeMask());
  if (masks_.size() == kMaxMasks) masks_.clear();
  return masks_.emplace(state_, std::move(mask)).first->second;
}

absl::StatusOr<GrammarConstraint::Mask> GrammarConstraint::MakeMask() {
  const std::optional<size_t> plain = PlainCharacters();
  Mask mask = plain_tokens_.Mask(plain.value_or(0));
  RETURN_IF_ERROR(Walk(plain ? plain_tokens_.others() : trie_, mask));
  for (const auto& [id, symbol] : controls_) {
    if (states_.Next(state_, symbol) != GrammarStates::kDead) Allow(id, mask);
  }
  return mask;
}

std::optional<size_t> GrammarConstraint::PlainCharacters() {
  GrammarStates::State state = state_;
  for (size_t count = 0; count < plain_tokens_.longest(); ++count) {
    const std::optional<GrammarStates::State> next = states_.NextPlain(state);
    if (!next) return std::nullopt;
    if (*next == GrammarStates::kDead) return count;
    if (*next == state) break;
    state = *next;
  }
  return plain_tokens_.longest();
}

absl::Status GrammarConstraint::Walk(const TokenTrie& trie, Mask& mask) {
  const int64_t work_before = states_.work();
  path_[0] = state_;
  const std::span<const TokenTrie::Node> nodes = trie.nodes();
  for (size_t i = 0; i < nodes.size();) {
    const TokenTrie::Node& node = nodes[i];
    const GrammarStates::State next =
        states_.Next(path_[node.depth - 1], node.byte);
    path_[node.depth] = next;
    if (next != GrammarStates::kDead && node.token >= 0) {
      Allow(node.token, mask);
    }
    i = next == GrammarStates::kDead ? node.next_beside : i + 1;
    if (states_.work() - work_before > kMaxWork || states_.size() > kMaxSize) {
      return absl::ResourceExhaustedError(
          "the schema can be read in too many ways at once");
    }
  }
  return absl::OkStatus();
}

void GrammarConstraint::Accept(int32_t id) {
  for (const auto& [control, symbol] : controls_) {
    if (id != control) continue;
    if (state_ != GrammarStates::kDead) state_ = states_.Next(state_, symbol);
    return;
  }
  for (const char byte : vocabulary_.Bytes(id)) {
    if (state_ == GrammarStates::kDead) return;
    state_ = states_.Next(state_, static_cast<uint8_t>(byte));
  }
}

}  // namespace deltafin
