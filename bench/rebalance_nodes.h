// bench/rebalance_nodes.h
//
// The processes of rebalance_cost: a coordinator that tells nodes what to copy,
// a node that holds every expert, nodes that hold none yet. All serve layers of
// real-size experts; reads of layers, reads for other nodes and writes of what
// is copied take the time of one disk a node. What is copied is copied by the
// node's own code, from process to process, and written to files.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "bench/child.h"

namespace deltafin::bench {

// What the processes tell each other, in memory that all of them map.
struct RebalanceBoard {
  static constexpr int kMaxTakers = 7;
  static constexpr int64_t kNoCopies = -1;

  // Of the coordinator, bytes a second; 0: none; kNoCopies: nothing is to be
  // copied.
  std::atomic<int64_t> budget{kNoCopies};
  struct Taker {
    std::atomic<bool> is_copying{false};
    std::atomic<uint64_t> copied_bytes{0};
  };
  Taker takers[kMaxTakers];
  std::atomic<uint64_t> given_bytes{0};  // by the node that holds everything

  // Lives as long as the process.
  static RebalanceBoard& Make();
};

struct RebalanceSetup {
  std::string folder;    // for what nodes keep
  double read_rate = 0;  // of each disk, bytes a second
  int threads = 1;       // that compute, of each node
  int coordinator_port = 0;
};

// REQUIRES of all: this process has no threads yet; the board outlives them.
std::unique_ptr<Child> RebalanceCoordinator();
std::unique_ptr<Child> GivingNode(const RebalanceSetup& setup,
                                  RebalanceBoard& board);
std::unique_ptr<Child> TakingNode(const RebalanceSetup& setup, int index,
                                  RebalanceBoard& board);

}  // namespace deltafin::bench
