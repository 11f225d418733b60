// spine_node/cpu/token_group.h
//
// Consecutive tokens of a step that a layer takes at once, and which sequences
// they belong to. Plain data.
#pragma once

#include <cstdint>
#include <vector>

#include "spine_node/cpu/sequence_state.h"

namespace deltafin {

// Tokens of one sequence: rows [first_row, first_row + num_tokens) of the group
// hold positions position, position + 1, ...
struct TokenRun {
  CpuSequenceState* state = nullptr;
  int sequence = 0;  // index of the slice in the step, for errors
  int first_row = 0;
  int num_tokens = 0;
  int64_t position = 0;
  // The last num_drafts of num_tokens are drafts; drafts_before of the same
  // slice came in earlier groups.
  int num_drafts = 0;
  int drafts_before = 0;
  // Drafts of the sequence's last step that its KDA state lacks until this run,
  // the first of the step, has fed them.
  int num_replayed = 0;
};

struct TokenGroup {
  int first_token = 0;  // of the step
  int num_tokens = 0;   // at most kTokenGroup
  std::vector<TokenRun> runs = {};
};

}  // namespace deltafin
