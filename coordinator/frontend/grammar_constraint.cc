#include "coordinator/frontend/grammar_constraint.h"

#include <utility>

#include "common/base/status_macros.h"

namespace deltafin {

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
  if (states_.size() > kMaxSize / 2) {
    state_ = states_.ForgetOthers(state_);
    masks_.clear();
  }
  ASSIGN_OR_RETURN(Mask mask, MakeMask());
  if (masks_.size() == kMaxMasks) masks_.clear();
  return masks_.emplace(state_, std::move(mask)).first->second;
}

absl::StatusOr<GrammarConstraint::Mask> GrammarConstraint::MakeMask() {
  Mask mask((vocabulary_.size() + 63) / 64);
  const auto allow = [&mask](int32_t id) {
    mask[id / 64] |= uint64_t{1} << (id % 64);
  };
  const int64_t work_before = states_.work();
  path_[0] = state_;
  const std::span<const TokenTrie::Node> nodes = trie_.nodes();
  for (size_t i = 0; i < nodes.size();) {
    const TokenTrie::Node& node = nodes[i];
    const GrammarStates::State next =
        states_.Next(path_[node.depth - 1], node.byte);
    path_[node.depth] = next;
    if (next != GrammarStates::kDead && node.token >= 0) allow(node.token);
    i = next == GrammarStates::kDead ? node.next_beside : i + 1;
    if (states_.work() - work_before > kMaxWork || states_.size() > kMaxSize) {
      return absl::ResourceExhaustedError(
          "the schema can be read in too many ways at once");
    }
  }
  for (const auto& [id, symbol] : controls_) {
    if (states_.Next(state_, symbol) != GrammarStates::kDead) allow(id);
  }
  return mask;
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
