// coordinator/frontend/byte_grammar.h
//
// A context-free grammar over bytes and the chat format's control tokens, as a
// graph: a rule is the part of the graph that its first node reaches, and ends
// at nodes that are final. Built once, then read by GrammarStates.
// Thread-compatible.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace deltafin {

// A byte, or beyond the bytes a control token.
using GrammarSymbol = uint16_t;
inline constexpr GrammarSymbol kOpenSymbol = 256;
inline constexpr GrammarSymbol kCloseSymbol = 257;
inline constexpr GrammarSymbol kSepSymbol = 258;
inline constexpr GrammarSymbol kEndOfMessageSymbol = 259;
inline constexpr int kNumGrammarSymbols = 260;

using GrammarNode = uint32_t;

struct GrammarEdge {
  enum class Kind : uint8_t {
    kSymbols,  // one of first..last
    kEmpty,
    kCall,  // what the rule at `callee` says
  };
  Kind kind = Kind::kEmpty;
  GrammarSymbol first = 0;
  GrammarSymbol last = 0;
  GrammarNode callee = 0;
  GrammarNode target = 0;
};

// Rules called inside of each other, the ends of rules not counted: what is
// deeper has no text. JSON nests as deep.
inline constexpr int kMaxGrammarDepth = 64;
// Bounds the memory of a grammar, about 40 bytes a node.
inline constexpr size_t kMaxGrammarNodes = 200'000;

class ByteGrammar {
 public:
  // Beyond kMaxGrammarNodes nothing is added any more; see is_too_large.
  GrammarNode AddNode();
  void SetFinal(GrammarNode node);

  void Empty(GrammarNode from, GrammarNode to);
  void Symbols(GrammarNode from, GrammarSymbol first, GrammarSymbol last,
               GrammarNode to);
  void Symbol(GrammarNode from, GrammarSymbol symbol, GrammarNode to) {
    Symbols(from, symbol, symbol, to);
  }
  // Any one of the bytes.
  void OneOf(GrammarNode from, std::string_view bytes, GrammarNode to);
  // All of the bytes.
  void Text(GrammarNode from, std::string_view bytes, GrammarNode to);
  void Call(GrammarNode from, GrammarNode callee, GrammarNode to);

  // All of the bytes of one of the texts.
  void Texts(GrammarNode from, std::span<const std::string> texts,
             GrammarNode to);

  // Where a node's own edges go with a symbol, the first of several.
  std::optional<GrammarNode> Step(GrammarNode from, GrammarSymbol symbol) const;
  bool is_too_large() const { return is_too_large_; }

  // Ends the building; texts are those of the rule at `start`. Errors:
  // INVALID_ARGUMENT when no text within the bounds is one.
  absl::Status Finish(GrammarNode start);

  GrammarNode start() const { return start_; }
  const std::vector<GrammarEdge>& edges(GrammarNode node) const {
    return nodes_[node].edges;
  }
  bool is_final(GrammarNode node) const { return nodes_[node].is_final; }
  // Whether nothing follows it in its rule: calls that return here need not
  // return at all.
  bool is_end(GrammarNode node) const {
    return nodes_[node].is_final && nodes_[node].edges.empty();
  }
  // The depth that the shortest way (in depth) from here to the end of the rule
  // takes; over kMaxGrammarDepth: none is allowed.
  int depth_needed(GrammarNode node) const { return nodes_[node].depth_needed; }

 private:
  struct Node {
    std::vector<GrammarEdge> edges;
    bool is_final = false;
    uint8_t depth_needed = kMaxGrammarDepth + 1;
  };

  void Add(GrammarNode from, GrammarEdge edge);
  int DepthOf(const GrammarEdge& edge) const;
  void FindDepths();

  std::vector<Node> nodes_;
  size_t num_edges_ = 0;
  bool is_too_large_ = false;
  GrammarNode start_ = 0;
};

}  // namespace deltafin
