#include "coordinator/engine/layer_assignment.h"

#include <algorithm>
#include <limits>

#include "common/base/check.h"

namespace deltafin {
namespace {

// A further token of the same expert costs this much of the first one: its
// bytes are read once (docs/performance.md).
constexpr double kFurtherToken = 0.15;

// Work leaves its home, where its bytes are likely in memory, only for a gain
// of at least this part of the layer and this many seconds.
constexpr double kWorthwhile = 0.05;
constexpr double kWorthwhileSeconds = 0.5e-3;
// Seconds of a unit where no node's speed is known.
constexpr double kAssumedPerUnit = 1e-4;
// Of clocks that tell whole microseconds.
constexpr double kLeastPerUnit = 1e-9;
// What one move must gain.
constexpr double kNoticeable = 0.01;
constexpr int kMostMoves = 32;

}  // namespace

void LayerAssignment::Plan(const Placement& placement, int layer,
                           const RoutedTokens& routed,
                           std::span<const NodeFitness> nodes) {
  layer_ = layer;
  busy_.clear();
  Update(placement, nodes);
  CountTokens(routed);
  for (size_t i = 0; i < num_experts_; ++i) TakeHomes(&experts_[i]);
  for (size_t i = 0; i < num_experts_; ++i) FillGaps(&experts_[i]);
  if (nodes.empty() || placement.options().cut == CutKind::kRandom) return;
  LeaveOutFar();
  for (size_t slot = 0; slot < nodes.size(); ++slot) {
    const bool is_asked = nodes[slot].fit && is_far_[slot] == 0;
    if (is_asked && !nodes[slot].known) return;  // its answer will tell
  }
  Improve();
}

void LayerAssignment::Update(const Placement& placement,
                             std::span<const NodeFitness> nodes) {
  placement_ = &placement;
  nodes_ = nodes;
  busy_.resize(nodes.size());
  is_far_.assign(nodes.size(), 0);
  double sum = 0;
  int num_known = 0;
  for (const NodeFitness& node : nodes) {
    if (!node.fit || !node.known) continue;
    sum += std::max(node.cost.per_unit, kLeastPerUnit);
    ++num_known;
  }
  usual_per_unit_ = num_known > 0 ? sum / num_known : kAssumedPerUnit;
}

void LayerAssignment::CountTokens(const RoutedTokens& routed) {
  std::fill(index_.begin(), index_.end(), -1);
  num_experts_ = 0;
  for (const int32_t expert : routed.experts) {
    if (index_.size() <= static_cast<size_t>(expert)) {
      index_.resize(expert + 1, -1);
    }
    if (index_[expert] < 0) {
      index_[expert] = static_cast<int32_t>(num_experts_);
      if (num_experts_ == experts_.size()) experts_.emplace_back();
      experts_[num_experts_].expert = expert;
      experts_[num_experts_++].num_tokens = 0;
    }
    ++experts_[index_[expert]].num_tokens;
  }
}

// The placement's cut, counted to the homes that are fit.
void LayerAssignment::TakeHomes(Expert* expert) {
  placement_->Cut({layer_, expert->expert}, 0, &expert->runs);
  for (const NodeRun& home : expert->runs) {
    if (!CanTake(home.node, expert->expert, home.slices)) continue;
    busy_[home.node] +=
        Seconds(home.node, UnitsOf(*expert) * home.slices.count);
  }
}

// Gives the runs whose home is not fit to others.
void LayerAssignment::FillGaps(Expert* expert) {
  for (size_t i = 0; i < expert->runs.size(); ++i) {
    const NodeRun home = expert->runs[i];
    if (CanTake(home.node, expert->expert, home.slices)) continue;
    Assign(home, expert->expert, {}, &scratch_);
    if (scratch_.empty()) continue;
    const auto at = expert->runs.begin() + static_cast<ptrdiff_t>(i);
    *at = scratch_[0];
    expert->runs.insert(at + 1, scratch_.begin() + 1, scratch_.end());
    i += scratch_.size() - 1;
  }
}

std::span<const NodeRun> LayerAssignment::runs(int32_t expert) const {
  return experts_[index_[expert]].runs;
}

double LayerAssignment::units(int32_t expert) const {
  const Expert& of = experts_[index_[expert]];
  return UnitsOf(of) / of.num_tokens;
}

// Of each slice, for all its tokens.
double LayerAssignment::UnitsOf(const Expert& expert) const {
  return 1 + kFurtherToken * (expert.num_tokens - 1);
}

double LayerAssignment::PerUnit(int slot) const {
  return nodes_[slot].known
             ? std::max(nodes_[slot].cost.per_unit, kLeastPerUnit)
             : usual_per_unit_;
}

double LayerAssignment::Seconds(int slot, double units) const {
  return units *
         (nodes_[slot].known ? nodes_[slot].cost.per_unit : usual_per_unit_);
}

double LayerAssignment::Total(int slot, double busy) const {
  return busy > 0 ? busy + nodes_[slot].cost.latency : 0;
}

double LayerAssignment::makespan() const {
  return nodes_.empty() ? 0 : Total(Busiest(), busy_[Busiest()]);
}

int LayerAssignment::Busiest() const {
  int busiest = 0;
  for (int slot = 1; slot < static_cast<int>(nodes_.size()); ++slot) {
    if (Total(slot, busy_[slot]) > Total(busiest, busy_[busiest])) {
      busiest = slot;
    }
  }
  return busiest;
}

bool LayerAssignment::CanTake(int slot, int32_t expert, SliceRun run) const {
  return nodes_[slot].fit && placement_->Holds(slot, {layer_, expert}, run);
}

int LayerAssignment::LeastLoaded(int32_t expert, SliceRun run, double units,
                                 std::span<const int> excluded) const {
  int best = -1;
  double best_total = 0;
  // Members that are not wanted only where no other can.
  for (const bool wanted : {true, false}) {
    for (int slot = 0; slot < static_cast<int>(nodes_.size()); ++slot) {
      if (placement_->member(slot).is_wanted() != wanted ||
          !CanTake(slot, expert, run) ||
          std::find(excluded.begin(), excluded.end(), slot) != excluded.end()) {
        continue;
      }
      const double total = Total(slot, busy_[slot] + Seconds(slot, units));
      if (best < 0 || total < best_total) {
        best = slot;
        best_total = total;
      }
    }
    if (best >= 0) break;
  }
  return best;
}

void LayerAssignment::Reassign(int32_t expert, SliceRun run,
                               std::span<const int> excluded,
                               std::vector<NodeRun>* runs) {
  Assign({-1, run}, expert, excluded, runs);
}

int LayerAssignment::Fetcher(int32_t expert, SliceRun run, double units,
                             int home, std::span<const int> excluded) const {
  const auto can_fetch = [&](int slot) {
    return nodes_[slot].fit &&
           placement_->Reaches(slot, {layer_, expert}, run) &&
           std::find(excluded.begin(), excluded.end(), slot) == excluded.end();
  };
  // It is meant to have the run and keeps it.
  if (home >= 0 && can_fetch(home)) return home;
  int best = -1;
  double best_total = 0;
  for (int slot = 0; slot < static_cast<int>(nodes_.size()); ++slot) {
    if (!can_fetch(slot)) continue;
    const double total = Total(slot, busy_[slot] + Seconds(slot, units));
    if (best < 0 || total < best_total) {
      best = slot;
      best_total = total;
    }
  }
  return best;
}

void LayerAssignment::Assign(const NodeRun& assigned, int32_t expert,
                             std::span<const int> excluded,
                             std::vector<NodeRun>* runs) {
  runs->clear();
  const SliceRun run = assigned.slices;
  const double units = UnitsOf(experts_[index_[expert]]);
  for (int slice = run.first; slice < run.first + run.count; ++slice) {
    int slot = LeastLoaded(expert, {slice, 1}, units, excluded);
    if (slot < 0) {
      slot = Fetcher(expert, {slice, 1}, units, assigned.node, excluded);
    }
    if (slot < 0) {
      runs->clear();
      return;
    }
    busy_[slot] += Seconds(slot, units);
    if (!runs->empty() && runs->back().node == slot) {
      ++runs->back().slices.count;
    } else {
      runs->push_back({slot, {slice, 1}});
    }
  }
}

// Moves work until no move helps; keeps to the homes if all of them together
// gain too little.
void LayerAssignment::Improve() {
  const double before = makespan();
  if (before < kWorthwhileSeconds) return;
  CopyExperts(experts_, &at_home_);
  const std::vector<double> busy_before = busy_;
  for (int i = 0; i < kMostMoves && MoveFrom(Busiest()); ++i) {
  }
  while (LeaveOut(Busiest(), Takers::kLeastLoaded,
                  (1 - kNoticeable) * makespan())) {
  }
  const double gain = before - makespan();
  if (gain >= kWorthwhile * before && gain >= kWorthwhileSeconds) return;
  CopyExperts(at_home_, &experts_);
  busy_ = busy_before;
}

// Of those in use. Keeps memory.
void LayerAssignment::CopyExperts(const std::vector<Expert>& from,
                                  std::vector<Expert>* to) {
  if (to->size() < num_experts_) to->resize(num_experts_);
  std::copy_n(from.begin(), num_experts_, to->begin());
}

// Nodes that are so far away that a layer takes longer with them have no part
// in it. Decided from totals alone, so that it is the same from layer to layer.
void LayerAssignment::LeaveOutFar() {
  by_latency_.clear();
  double speed = 0;  // units a second
  for (int slot = 0; slot < static_cast<int>(nodes_.size()); ++slot) {
    if (busy_[slot] == 0) continue;
    by_latency_.push_back(slot);
    speed += 1 / PerUnit(slot);
  }
  std::ranges::sort(by_latency_, {},
                    [this](int slot) { return nodes_[slot].cost.latency; });
  double units = 0;
  for (size_t i = 0; i < num_experts_; ++i) {
    units += UnitsOf(experts_[i]) * placement_->options().num_slices;
  }
  size_t num_near = by_latency_.size();
  double best = std::numeric_limits<double>::infinity();
  double all = 0;
  for (size_t num = by_latency_.size(); num > 0; --num) {
    const int farthest = by_latency_[num - 1];
    const double seconds = units / speed + nodes_[farthest].cost.latency;
    speed -= 1 / PerUnit(farthest);
    if (num == by_latency_.size()) all = seconds;
    if (seconds >= best) continue;
    best = seconds;
    num_near = num;
  }
  if (all - best < std::max(kWorthwhile * all, kWorthwhileSeconds)) return;
  const std::span<const int> far = std::span(by_latency_).subspan(num_near);
  for (const int slot : far) is_far_[slot] = 1;
  for (const int slot : far) {
    is_far_[slot] = LeaveOut(slot, Takers::kSameAlways,
                             std::numeric_limits<double>::infinity());
  }
}

// Gives all work of a node to others if the layer then takes no more than
// `most`.
bool LayerAssignment::LeaveOut(int slot, Takers takers, double most) {
  const std::vector<double> busy_before = busy_;
  busy_[slot] = 0;
  const int excluded[] = {slot};
  std::vector<Move> moves;
  for (size_t i = 0; i < num_experts_; ++i) {
    Expert& expert = experts_[i];
    for (size_t run = 0; run < expert.runs.size(); ++run) {
      const NodeRun& from = expert.runs[run];
      if (from.node != slot) continue;
      const double units = UnitsOf(expert) * from.slices.count;
      const int to =
          takers == Takers::kSameAlways
              ? AlwaysTaker(slot, expert.expert, from.slices)
              : LeastLoaded(expert.expert, from.slices, units, excluded);
      if (to < 0 || !placement_->member(to).is_wanted()) {
        busy_ = busy_before;
        return false;
      }
      busy_[to] += Seconds(to, units);
      moves.push_back({&expert, run, 0, to, 0});
    }
  }
  if (makespan() > most) {
    busy_ = busy_before;
    return false;
  }
  for (const Move& move : moves) move.expert->runs[move.run].node = move.to;
  return true;
}

// The member that has an expert's run when `slot` does not count: one after it,
// a different one from expert to expert, so that they share the work.
int LayerAssignment::AlwaysTaker(int slot, int32_t expert, SliceRun run) const {
  const int num_slots = static_cast<int>(nodes_.size());
  for (int i = 0; i < num_slots - 1; ++i) {
    const int after = 1 + (expert + i) % (num_slots - 1);
    const int to = (slot + after) % num_slots;
    if (is_far_[to] == 0 && CanTake(to, expert, run) &&
        placement_->member(to).is_wanted()) {
      return to;
    }
  }
  return -1;
}

// Moves one run, or its last slice, from a node to the one where it does most
// good.
bool LayerAssignment::MoveFrom(int slot) {
  const double before = Total(slot, busy_[slot]);
  Move best;
  best.makespan = before - std::max(kWorthwhile * before, kWorthwhileSeconds);
  for (size_t i = 0; i < num_experts_; ++i) {
    Expert& expert = experts_[i];
    for (size_t run = 0; run < expert.runs.size(); ++run) {
      const NodeRun& from = expert.runs[run];
      if (from.node != slot) continue;
      for (const int count : {from.slices.count, 1}) {
        const SliceRun moved = {from.slices.first + from.slices.count - count,
                                count};
        const double units = UnitsOf(expert) * count;
        const int excluded[] = {slot};
        const int to = LeastLoaded(expert.expert, moved, units, excluded);
        if (to < 0 || !placement_->member(to).is_wanted()) continue;
        const double makespan =
            std::max(Total(slot, busy_[slot] - Seconds(slot, units)),
                     Total(to, busy_[to] + Seconds(to, units)));
        if (makespan < best.makespan)
          best = {&expert, run, count, to, makespan};
      }
    }
  }
  if (best.expert == nullptr) return false;
  Apply(best);
  return true;
}

void LayerAssignment::Apply(const Move& move) {
  std::vector<NodeRun>& runs = move.expert->runs;
  NodeRun& from = runs[move.run];
  const double units = UnitsOf(*move.expert) * move.count;
  busy_[from.node] -= Seconds(from.node, units);
  busy_[move.to] += Seconds(move.to, units);
  if (move.count == from.slices.count) {
    from.node = move.to;
    return;
  }
  from.slices.count -= move.count;
  const NodeRun moved = {move.to,
                         {from.slices.first + from.slices.count, move.count}};
  runs.insert(runs.begin() + static_cast<ptrdiff_t>(move.run) + 1, moved);
}

}  // namespace deltafin
