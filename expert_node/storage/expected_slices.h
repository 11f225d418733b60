// expert_node/storage/expected_slices.h
//
// Slices that will probably be wanted soon, by what coordinators say: which are
// still to be read, and which are held in memory until it is known. Books only.
// Thread-compatible: TieredStore guards it.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include "absl/container/flat_hash_map.h"
#include "expert_node/storage/expert_cache.h"

namespace deltafin {

// A run of slices of one expert.
struct ExpectedRun {
  ExpertKey expert;
  SliceRun run;
};

struct ExpectedSlicesStats {
  uint64_t used = 0;    // held, and then wanted
  uint64_t wasted = 0;  // held in vain
};

class ExpectedSlices {
 public:
  using Entry = ExpertCache::Entry;

  // At most `limit` slices are held or waiting to be read.
  ExpectedSlices(ExpertCache& cache, size_t limit)
      : cache_(cache), limit_(limit) {}

  // From now on; what is above it goes.
  void SetLimit(size_t limit);

  // Takes as many runs as there is room for. A layer's runs replace those of
  // the same layer that have not begun.
  void Expect(int layer, std::span<const ExpectedRun> runs);
  // The next run to read, at most so many slices; nothing when there is none.
  std::optional<ExpectedRun> Take(int max_slices);
  bool any_to_read() const { return !to_read_.empty(); }

  // Holds an entry, whose pin becomes ours.
  void Hold(Entry* entry) { held_.emplace(entry, entry->key().expert.layer); }
  // The slice is wanted, and whoever wants it has a pin of its own. True if it
  // was held.
  bool CountUse(Entry* entry);
  // The layer's work has come: forgets what else was expected of it.
  // True if a slot became available.
  bool EndLayer(int layer);
  // Gives all room back. True if a slot became available.
  bool Clear();

  const ExpectedSlicesStats& stats() const { return stats_; }

 private:
  bool LetGo(Entry* entry);

  ExpertCache& cache_;
  size_t limit_;
  size_t num_to_read_ = 0;  // slices
  std::deque<ExpectedRun> to_read_;
  absl::flat_hash_map<Entry*, int> held_;  // entry -> layer
  ExpectedSlicesStats stats_;
};

}  // namespace deltafin
