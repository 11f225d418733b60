// expert_node/work_plan.h
//
// How a layer's work is cut for threads: tokens grouped by (expert, run of
// slices), token lists that experts share, units of one slice. A pure function
// of the tokens; neither the plan nor the parts that the tokens came in change
// a bit of the result.
#pragma once

#include <cstdint>
#include <vector>

#include "expert_node/merged_work.h"
#include "expert_node/storage/expert_store.h"

namespace deltafin {

// Tokens in a pass of the kernel. The sums of a pass take 8 L bytes a token
// (28 KB for K3) and should stay in a core's cache beside the weight stream
// (docs/performance.md).
inline constexpr int kMaxPassTokens = 16;

// A list of rows that one or more groups share, cut into passes.
struct TokenList {
  std::vector<int> tokens;  // ascending; numbers of the merged work
  std::vector<int> rows;    // the same as index into the plan's rows
};

// The tokens that want the same run of slices of the same expert.
struct ExpertGroup {
  int expert = 0;
  SliceRun run;
  int token_list = 0;          // index into WorkPlan::token_lists
  std::vector<float> weights;  // router weight of each token of the list
};

// One slice of a group: what a thread takes at a time.
struct WorkUnit {
  int group = 0;
  int slice = 0;
};

struct WorkPlan {
  std::vector<int> row_tokens;  // tokens that have work, ascending: the rows
  std::vector<TokenList> token_lists;
  std::vector<ExpertGroup> groups;  // by (expert, first slice, count)
  std::vector<WorkUnit> units;      // by group, slices ascending
  std::vector<SliceKey> slices;     // [units] what each unit needs
  int64_t num_terms = 0;            // (token, expert, slice) triples
};

WorkPlan PlanWork(const MergedWork& work);

}  // namespace deltafin
