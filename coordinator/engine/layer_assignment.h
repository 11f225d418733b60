// coordinator/engine/layer_assignment.h
//
// Who computes which slices of one layer's experts: the placement's cut, where
// its nodes are fit, changed where others would be done sooner. Pure.
// Thread-compatible; reused from layer to layer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "coordinator/cluster/placement.h"
#include "coordinator/engine/cost_model.h"
#include "spine_node/spine_types.h"

namespace deltafin {

// A node as this layer may use it.
struct NodeFitness {
  bool fit = false;    // can be sent work now
  bool known = false;  // its cost is known
  NodeCost cost;       // otherwise the latency that is supposed, if any
};

class LayerAssignment {
 public:
  // Assigns every expert of the layer: to nodes that hold what they get, or
  // where no fit one does, to nodes that can fetch it. Runs that nobody can do
  // stay with their home. `nodes` by slot of the placement; both must live
  // until the next Plan or Update.
  void Plan(const Placement& placement, int layer, const RoutedTokens& routed,
            std::span<const NodeFitness> nodes);

  // Covering every slice once. REQUIRES: the expert is in the layer.
  std::span<const NodeRun> runs(int32_t expert) const;
  // Work of one (token, slice) of the expert: less where tokens share it.
  double units(int32_t expert) const;

  // Takes what changed since Plan: the next calls are about these.
  void Update(const Placement& placement, std::span<const NodeFitness> nodes);
  // Assigns a run again, to fit nodes that are not `excluded`, as Plan does,
  // and counts it to their load. Replaces *runs; empty when a slice has nobody.
  void Reassign(int32_t expert, SliceRun run, std::span<const int> excluded,
                std::vector<NodeRun>* runs);

  // Predicted seconds of the slowest node.
  double makespan() const;

 private:
  struct Expert {
    int32_t expert = 0;
    int num_tokens = 0;
    std::vector<NodeRun> runs;
  };
  struct Move {
    Expert* expert = nullptr;
    size_t run = 0;
    int count = 0;  // slices, from the run's end
    int to = 0;
    double makespan = 0;  // of the two nodes, afterwards
  };

  void CountTokens(const RoutedTokens& routed);
  void TakeHomes(Expert* expert);
  void FillGaps(Expert* expert);
  double UnitsOf(const Expert& expert) const;
  double PerUnit(int slot) const;
  double Seconds(int slot, double units) const;
  double Total(int slot, double busy) const;
  int Busiest() const;
  bool CanTake(int slot, int32_t expert, SliceRun run) const;
  int LeastLoaded(int32_t expert, SliceRun run, double units,
                  std::span<const int> excluded) const;
  // `home` where it can fetch the run, or who is done with it first; -1:
  // nobody.
  int Fetcher(int32_t expert, SliceRun run, double units, int home,
              std::span<const int> excluded) const;
  void Assign(const NodeRun& run, int32_t expert, std::span<const int> excluded,
              std::vector<NodeRun>* runs);
  void Improve();
  void LeaveOutFar();
  enum class Takers : uint8_t {
    kLeastLoaded,
    kSameAlways,  // for an expert: its bytes stay in one memory
  };
  bool LeaveOut(int slot, Takers takers, double most);
  int AlwaysTaker(int slot, int32_t expert, SliceRun run) const;
  bool MoveFrom(int slot);
  void Apply(const Move& move);
  void CopyExperts(const std::vector<Expert>& from, std::vector<Expert>* to);

  const Placement* placement_ = nullptr;
  int layer_ = 0;
  std::span<const NodeFitness> nodes_;
  double usual_per_unit_ = 0;    // seconds, for nodes of unknown speed
  std::vector<double> busy_;     // seconds of work, by slot
  std::vector<uint8_t> is_far_;  // by slot: has no work for its latency
  std::vector<Expert> experts_;
  size_t num_experts_ = 0;      // in use
  std::vector<int32_t> index_;  // expert -> experts_, -1: not in the layer
  std::vector<NodeRun> scratch_;
  std::vector<int> by_latency_;  // scratch: slots with work, nearest first
  std::vector<Expert> at_home_;  // experts_ before they were improved
};

}  // namespace deltafin
