#include "coordinator/frontend/plain_steps.h"

#include <algorithm>

namespace deltafin {

PlainStep PlainSteps::Find(GrammarNode node) {
  const auto known = steps_.find(node);
  if (known != steps_.end()) return known->second;
  return steps_.emplace(node, Make(node)).first->second;
}

PlainStep PlainSteps::Make(GrammarNode node) const {
  if (!TakesPlainByte(node)) return {PlainStep::Kind::kNowhere, 0};
  std::optional<GrammarNode> common;
  for (const CharacterBytes& characters : kPlainCharacters) {
    const auto target = TargetOf(node, characters.ranges());
    if (!target || (common && *common != *target)) return {};
    common = target;
  }
  return {PlainStep::Kind::kTarget, *common};
}

bool PlainSteps::TakesPlainByte(GrammarNode node) const {
  for (const GrammarEdge& edge : grammar_->edges(node)) {
    if (edge.kind != GrammarEdge::Kind::kSymbols) continue;
    for (const CharacterBytes& characters : kPlainCharacters) {
      const ByteRange& lead = characters.bytes[0];
      if (edge.first <= lead.last && edge.last >= lead.first) return true;
    }
  }
  return false;
}

std::optional<GrammarNode> PlainSteps::TargetOf(
    GrammarNode node, std::span<const ByteRange> ranges) const {
  const ByteRange& range = ranges.front();
  const auto rest = ranges.subspan(1);
  std::optional<GrammarNode> common;
  std::optional<GrammarNode> last_step;
  for (int byte = range.first; byte <= range.last; ++byte) {
    const auto step = OnlyTarget(node, static_cast<uint8_t>(byte));
    if (!step) return std::nullopt;
    if (step == last_step) continue;
    last_step = step;
    if (!rest.empty() && !HasSymbolsOnly(*step)) return std::nullopt;
    const auto target = rest.empty() ? step : TargetOf(*step, rest);
    if (!target || (common && *common != *target)) return std::nullopt;
    common = target;
  }
  return common;
}

std::optional<GrammarNode> PlainSteps::OnlyTarget(GrammarNode node,
                                                  uint8_t byte) const {
  std::optional<GrammarNode> target;
  for (const GrammarEdge& edge : grammar_->edges(node)) {
    if (edge.kind != GrammarEdge::Kind::kSymbols || byte < edge.first ||
        byte > edge.last) {
      continue;
    }
    if (target) return std::nullopt;
    target = edge.target;
  }
  return target;
}

// Inside of a character nothing else goes on, so that no other place is open.
bool PlainSteps::HasSymbolsOnly(GrammarNode node) const {
  const std::vector<GrammarEdge>& edges = grammar_->edges(node);
  return !grammar_->is_final(node) &&
         std::all_of(edges.begin(), edges.end(), [](const GrammarEdge& edge) {
           return edge.kind == GrammarEdge::Kind::kSymbols;
         });
}

}  // namespace deltafin
