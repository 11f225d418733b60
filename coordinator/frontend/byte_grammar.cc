#include "coordinator/frontend/byte_grammar.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace deltafin {

GrammarNode ByteGrammar::AddNode() {
  if (nodes_.size() >= kMaxGrammarNodes) {
    is_too_large_ = true;
    return 0;
  }
  nodes_.emplace_back();
  return static_cast<GrammarNode>(nodes_.size() - 1);
}

void ByteGrammar::SetFinal(GrammarNode node) { nodes_[node].is_final = true; }

void ByteGrammar::Add(GrammarNode from, GrammarEdge edge) {
  if (num_edges_ >= 2 * kMaxGrammarNodes) is_too_large_ = true;
  if (is_too_large_) return;
  nodes_[from].edges.push_back(edge);
  ++num_edges_;
}

void ByteGrammar::Empty(GrammarNode from, GrammarNode to) {
  Add(from, {GrammarEdge::Kind::kEmpty, 0, 0, 0, to});
}

void ByteGrammar::Symbols(GrammarNode from, GrammarSymbol first,
                          GrammarSymbol last, GrammarNode to) {
  Add(from, {GrammarEdge::Kind::kSymbols, first, last, 0, to});
}

void ByteGrammar::OneOf(GrammarNode from, std::string_view bytes,
                        GrammarNode to) {
  for (const char c : bytes) Symbol(from, static_cast<uint8_t>(c), to);
}

void ByteGrammar::Text(GrammarNode from, std::string_view bytes,
                       GrammarNode to) {
  if (bytes.empty()) return Empty(from, to);
  for (size_t i = 0; i < bytes.size(); ++i) {
    const GrammarNode next = i + 1 == bytes.size() ? to : AddNode();
    Symbol(from, static_cast<uint8_t>(bytes[i]), next);
    from = next;
  }
}

// As a tree, so that one byte leads to one node.
void ByteGrammar::Texts(GrammarNode from, std::span<const std::string> texts,
                        GrammarNode to) {
  absl::flat_hash_map<std::pair<GrammarNode, char>, GrammarNode> tree;
  const GrammarNode root = AddNode();
  Empty(from, root);
  for (const std::string& text : texts) {
    GrammarNode at = root;
    for (const char c : text) {
      const auto known = tree.find({at, c});
      const GrammarNode next = known == tree.end() ? AddNode() : known->second;
      if (known == tree.end()) {
        Symbol(at, static_cast<uint8_t>(c), next);
        tree[{at, c}] = next;
      }
      at = next;
    }
    Empty(at, to);
  }
}

std::optional<GrammarNode> ByteGrammar::Step(GrammarNode from,
                                             GrammarSymbol symbol) const {
  for (const GrammarEdge& edge : edges(from)) {
    if (edge.kind == GrammarEdge::Kind::kSymbols && symbol >= edge.first &&
        symbol <= edge.last) {
      return edge.target;
    }
  }
  return std::nullopt;
}

void ByteGrammar::Call(GrammarNode from, GrammarNode callee, GrammarNode to) {
  Add(from, {GrammarEdge::Kind::kCall, 0, 0, callee, to});
}

absl::Status ByteGrammar::Finish(GrammarNode start) {
  start_ = start;
  FindDepths();
  if (depth_needed(start) <= kMaxGrammarDepth) return absl::OkStatus();
  return absl::InvalidArgumentError("no text of bounded depth is allowed");
}

int ByteGrammar::DepthOf(const GrammarEdge& edge) const {
  const int after = depth_needed(edge.target);
  if (edge.kind != GrammarEdge::Kind::kCall) return after;
  const int inside = depth_needed(edge.callee);
  return is_end(edge.target) ? inside : std::max(1 + inside, after);
}

// Settles nodes in ascending depth: a way is never less deep than what it is
// made of, so each edge is looked at once or twice.
void ByteGrammar::FindDepths() {
  struct Use {
    GrammarNode node;
    GrammarEdge edge;  // of the node
  };
  std::vector<std::vector<Use>> uses(nodes_.size());
  std::array<std::vector<GrammarNode>, kMaxGrammarDepth + 1> pending;
  for (GrammarNode node = 0; node < nodes_.size(); ++node) {
    if (is_final(node)) pending[0].push_back(node);
    for (const GrammarEdge& edge : edges(node)) {
      uses[edge.target].push_back({node, edge});
      if (edge.kind == GrammarEdge::Kind::kCall) {
        uses[edge.callee].push_back({node, edge});
      }
    }
  }
  for (int depth = 0; depth <= kMaxGrammarDepth; ++depth) {
    while (!pending[depth].empty()) {
      const GrammarNode node = pending[depth].back();
      pending[depth].pop_back();
      if (depth_needed(node) <= depth) continue;
      nodes_[node].depth_needed = static_cast<uint8_t>(depth);
      for (const Use& use : uses[node]) {
        const int candidate = DepthOf(use.edge);
        if (candidate < depth_needed(use.node)) {
          pending[candidate].push_back(use.node);
        }
      }
    }
  }
}

}  // namespace deltafin
