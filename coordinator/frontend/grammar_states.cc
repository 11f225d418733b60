#include "coordinator/frontend/grammar_states.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"

namespace deltafin {

GrammarStates::GrammarStates(std::shared_ptr<const ByteGrammar> grammar)
    : grammar_(std::move(grammar)), plain_steps_(grammar_), frames_(1) {}

GrammarStates::State GrammarStates::start() {
  return Close({{grammar_->start(), 0}});
}

GrammarStates::State GrammarStates::MakeStep(State state,
                                             GrammarSymbol symbol) {
  const State next = FindNext(state, symbol);
  if (rows_[state] == nullptr) {
    if (num_rows_ == kMaxRows) return next;
    rows_[state] = std::make_unique<State[]>(kNumGrammarSymbols);
    std::fill_n(rows_[state].get(), kNumGrammarSymbols, kUnknown);
    ++num_rows_;
  }
  rows_[state][symbol] = next;
  return next;
}

GrammarStates::State GrammarStates::FindNext(State state,
                                             GrammarSymbol symbol) {
  Places reached;
  for (const Place& place : *states_[state].places) {
    const std::vector<GrammarEdge>& edges = grammar_->edges(place.node);
    work_ += std::ssize(edges);
    for (const GrammarEdge& edge : edges) {
      if (edge.kind != GrammarEdge::Kind::kSymbols || symbol < edge.first ||
          symbol > edge.last) {
        continue;
      }
      reached.push_back({edge.target, place.stack});
    }
  }
  return Close(std::move(reached));
}

// Between the bytes of a character each place goes on alone, so that the places
// after it come in the same order as here.
GrammarStates::State GrammarStates::FindNextPlain(State state) {
  Places reached;
  for (const Place& place : *states_[state].places) {
    const PlainStep step = plain_steps_.Find(place.node);
    if (step.kind == PlainStep::Kind::kDepends) return kDepends;
    if (step.kind == PlainStep::Kind::kNowhere) continue;
    reached.push_back({step.target, place.stack});
  }
  return Close(std::move(reached));
}

bool GrammarStates::CanEnd(const Place& place) const {
  return frames_[place.stack].depth + grammar_->depth_needed(place.node) <=
         kMaxGrammarDepth;
}

// What one place reaches without a symbol.
void GrammarStates::Follow(const Place& place, Places& reached) {
  for (const GrammarEdge& edge : grammar_->edges(place.node)) {
    if (edge.kind == GrammarEdge::Kind::kEmpty) {
      reached.push_back({edge.target, place.stack});
    } else if (edge.kind == GrammarEdge::Kind::kCall &&
               CanEnd({edge.target, place.stack})) {
      const uint32_t stack = grammar_->is_end(edge.target)
                                 ? place.stack
                                 : Push(edge.target, place.stack);
      reached.push_back({edge.callee, stack});
    }
  }
  if (grammar_->is_final(place.node) && place.stack != 0) {
    const Frame& frame = frames_[place.stack];
    reached.push_back({frame.node, frame.below});
  }
}

// In depth, first ways first, so that a place with symbols is soon found.
GrammarStates::State GrammarStates::Close(Places places) {
  Places kept;
  Places reached;
  bool is_complete = false;
  absl::flat_hash_set<Place> seen;
  std::reverse(places.begin(), places.end());
  while (!places.empty() && kept.size() < kMaxPlaces &&
         seen.size() < kMaxFollowed) {
    const Place place = places.back();
    places.pop_back();
    work_ += 1 + std::ssize(grammar_->edges(place.node));
    if (!CanEnd(place) || !seen.insert(place).second) continue;
    if (place.stack == 0 && grammar_->is_final(place.node)) is_complete = true;
    if (HasSymbols(place.node)) kept.push_back(place);
    reached.clear();
    Follow(place, reached);
    places.insert(places.end(), reached.rbegin(), reached.rend());
  }
  if (kept.empty() && !is_complete) return kDead;
  return Intern(std::move(kept), is_complete);
}

bool GrammarStates::HasSymbols(GrammarNode node) const {
  const std::vector<GrammarEdge>& edges = grammar_->edges(node);
  return std::any_of(edges.begin(), edges.end(), [](const GrammarEdge& edge) {
    return edge.kind == GrammarEdge::Kind::kSymbols;
  });
}

GrammarStates::State GrammarStates::Intern(Places places, bool is_complete) {
  const auto [at, is_new] = state_ids_.try_emplace(
      {std::move(places), is_complete}, static_cast<State>(states_.size()));
  if (is_new) {
    states_.push_back({&at->first.first, is_complete});
    rows_.emplace_back();
    size_ += 1 + at->first.first.size();
  }
  return at->second;
}

uint32_t GrammarStates::Push(GrammarNode node, uint32_t below) {
  const auto [at, is_new] = frame_ids_.try_emplace(
      {node, below}, static_cast<uint32_t>(frames_.size()));
  if (is_new) {
    frames_.push_back({node, below, frames_[below].depth + 1});
    ++size_;
  }
  return at->second;
}

GrammarStates::State GrammarStates::ForgetOthers(State keep) {
  std::vector<Frame> old_frames = std::move(frames_);
  Places places = *states_[keep].places;
  const bool is_complete = states_[keep].is_complete;
  frames_.assign(1, Frame());
  frame_ids_.clear();
  states_.clear();
  rows_.clear();
  state_ids_.clear();
  num_rows_ = 0;
  size_ = 0;
  for (Place& place : places) {
    std::vector<GrammarNode> nodes;
    for (uint32_t at = place.stack; at != 0; at = old_frames[at].below) {
      nodes.push_back(old_frames[at].node);
    }
    place.stack = 0;
    for (size_t i = nodes.size(); i > 0; --i) {
      place.stack = Push(nodes[i - 1], place.stack);
    }
  }
  return Intern(std::move(places), is_complete);
}

}  // namespace deltafin
