// coordinator/frontend/plain_steps.h
//
// Where plain characters lead in a grammar, found for whole characters instead
// of byte by byte. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "absl/container/flat_hash_map.h"
#include "coordinator/frontend/byte_grammar.h"
#include "coordinator/frontend/plain_characters.h"

namespace deltafin {

struct PlainStep {
  enum class Kind : uint8_t {
    kNowhere,  // no plain character can come
    kTarget,   // every one can, and leads to `target`
    kDepends,  // on the character
  };
  Kind kind = Kind::kDepends;
  GrammarNode target = 0;
};

class PlainSteps {
 public:
  // REQUIRES: the grammar is finished.
  explicit PlainSteps(std::shared_ptr<const ByteGrammar> grammar)
      : grammar_(std::move(grammar)) {}

  // By the node's own symbols; what it calls or goes on to without one counts
  // as another place.
  PlainStep Find(GrammarNode node);

 private:
  PlainStep Make(GrammarNode node) const;
  bool TakesPlainByte(GrammarNode node) const;
  // Where all texts of one byte of each range lead; nullopt: to several nodes,
  // or not all to any.
  std::optional<GrammarNode> TargetOf(GrammarNode node,
                                      std::span<const ByteRange> ranges) const;
  std::optional<GrammarNode> OnlyTarget(GrammarNode node, uint8_t byte) const;
  bool HasSymbolsOnly(GrammarNode node) const;

  const std::shared_ptr<const ByteGrammar> grammar_;
  absl::flat_hash_map<GrammarNode, PlainStep> steps_;
};

}  // namespace deltafin
