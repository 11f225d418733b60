// coordinator/frontend/grammar_states.h
//
// Reads texts by a grammar, symbol by symbol. The places in the grammar where
// a text may be, with the rules that called each, are one state; states and
// steps between them are made when first needed and kept. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"
#include "coordinator/frontend/byte_grammar.h"
#include "coordinator/frontend/plain_steps.h"

namespace deltafin {

// From every state but kDead there is a way to a complete text.
class GrammarStates {
 public:
  using State = int32_t;
  static constexpr State kDead = -1;

  // Places in one state. A grammar that can be read in more ways at once loses
  // the last of them: what is then read still is a text of the grammar, but not
  // all its texts can be.
  static constexpr size_t kMaxPlaces = 1024;

  // REQUIRES: the grammar is finished.
  explicit GrammarStates(std::shared_ptr<const ByteGrammar> grammar);

  State start();
  State Next(State state, GrammarSymbol symbol) {
    const State* const row = rows_[state].get();
    if (row != nullptr && row[symbol] != kUnknown) return row[symbol];
    return MakeStep(state, symbol);
  }
  // Where every plain character leads, as their bytes would one by one; nullopt
  // where that depends on the character.
  std::optional<State> NextPlain(State state) {
    if (states_[state].next_plain == kUnknown) {
      const State next = FindNextPlain(state);
      states_[state].next_plain = next;
    }
    if (states_[state].next_plain == kDepends) return std::nullopt;
    return states_[state].next_plain;
  }
  // Whether the text so far is complete; it may go on nevertheless.
  bool is_complete(State state) const { return states_[state].is_complete; }

  // Edges looked at so far: what the calls cost, some nanoseconds each.
  int64_t work() const { return work_; }
  // States, places in them and frames: what they take, some 100 bytes each.
  size_t size() const { return size_; }
  // Whether further states keep no steps, so that each is made anew.
  bool is_out_of_rows() const { return num_rows_ == kMaxRows; }
  // Forgets all states but `keep`; returns its new name.
  State ForgetOthers(State keep);

 private:
  static constexpr State kUnknown = -2;
  static constexpr State kDepends = -3;
  // Steps are kept for as many states, 1 KiB each.
  static constexpr size_t kMaxRows = 1024;
  // Places followed in one step; each kept one is found through few others.
  static constexpr size_t kMaxFollowed = 16 * kMaxPlaces;

  // Rules waiting for the end of what they called, the innermost first.
  struct Frame {
    GrammarNode node = 0;  // where to go on
    uint32_t below = 0;
    int depth = 0;
  };
  struct Place {
    GrammarNode node = 0;
    uint32_t stack = 0;  // 0: the text's own rule
    bool operator==(const Place&) const = default;
    template <typename H>
    friend H AbslHashValue(H h, const Place& place) {
      return H::combine(std::move(h), place.node, place.stack);
    }
  };
  using Places = std::vector<Place>;
  struct StateData {
    const Places* places = nullptr;  // with symbols to follow
    bool is_complete = false;
    State next_plain = kUnknown;
  };

  State MakeStep(State state, GrammarSymbol symbol);
  State FindNext(State state, GrammarSymbol symbol);
  State FindNextPlain(State state);
  // The state of what `places` reach without a symbol.
  State Close(Places places);
  void Follow(const Place& place, Places& reached);
  State Intern(Places places, bool is_complete);
  uint32_t Push(GrammarNode node, uint32_t below);
  bool CanEnd(const Place& place) const;
  bool HasSymbols(GrammarNode node) const;

  const std::shared_ptr<const ByteGrammar> grammar_;
  PlainSteps plain_steps_;
  std::vector<Frame> frames_;
  absl::flat_hash_map<std::pair<GrammarNode, uint32_t>, uint32_t> frame_ids_;
  std::vector<StateData> states_;
  // Steps that were made: [kNumGrammarSymbols] of a state, or null.
  std::vector<std::unique_ptr<State[]>> rows_;
  absl::node_hash_map<std::pair<Places, bool>, State> state_ids_;
  size_t num_rows_ = 0;
  size_t size_ = 0;
  int64_t work_ = 0;
};

}  // namespace deltafin
