// coordinator/frontend/grammar_constraint.h
//
// Holds the tokens of one sequence to a grammar.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "coordinator/engine/token_constraint.h"
#include "coordinator/frontend/byte_grammar.h"
#include "coordinator/frontend/chat_tokens.h"
#include "coordinator/frontend/grammar_states.h"
#include "coordinator/frontend/plain_tokens.h"
#include "coordinator/frontend/token_trie.h"
#include "coordinator/frontend/tokenizer.h"

namespace deltafin {

// A token is allowed when a text of the grammar goes on with its bytes: however
// a text is cut into tokens. Of reserved tokens those of the chat format alone
// can be allowed.
class GrammarConstraint final : public TokenConstraint {
 public:
  // `tokenizer` must outlive the constraint. REQUIRES: the grammar is finished.
  // Errors: FAILED_PRECONDITION: the model has no chat format, or not every
  // byte is a token.
  static absl::StatusOr<std::shared_ptr<GrammarConstraint>> Create(
      std::shared_ptr<const ByteGrammar> grammar, const Tokenizer& tokenizer);

  // Errors: INTERNAL when nothing may come, RESOURCE_EXHAUSTED when the grammar
  // can be read in so many ways that the answer takes too much.
  absl::StatusOr<std::span<const uint64_t>> Allowed() override;
  void Accept(int32_t id) override;

  // Whether the text is complete.
  bool is_complete() const {
    return state_ != GrammarStates::kDead && states_.is_complete(state_);
  }

 private:
  using Mask = std::vector<uint64_t>;

  // Masks kept, 20 KiB each at K3's vocabulary.
  static constexpr size_t kMaxMasks = 16;
  // Of GrammarStates::work for one mask: some tenths of a second.
  static constexpr int64_t kMaxWork = 30'000'000;
  // Of GrammarStates::size: some tens of megabytes.
  static constexpr size_t kMaxSize = 300'000;

  GrammarConstraint(std::shared_ptr<const ByteGrammar> grammar,
                    const Tokenizer& tokenizer, const ChatTokens& tokens);

  absl::StatusOr<Mask> MakeMask();
  // How many plain characters can come, as many as the longest plain token has
  // at most; nullopt: that depends on them.
  std::optional<size_t> PlainCharacters();
  // Allows what a walk of `trie` finds.
  absl::Status Walk(const TokenTrie& trie, Mask& mask);

  const Vocabulary& vocabulary_;
  const TokenTrie& trie_;
  const PlainTokens& plain_tokens_;
  std::vector<std::pair<int32_t, GrammarSymbol>> controls_;
  GrammarStates states_;
  GrammarStates::State state_;
  absl::flat_hash_map<GrammarStates::State, Mask> masks_;
  std::vector<GrammarStates::State> path_;  // scratch: of a walk, by depth
};

}  // namespace deltafin
