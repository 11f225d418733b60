// tests/integration/hash_case.h
//
// One way to run the same generation: other nodes, cuts, kernels, threads,
// chunks. All must give one output_sha256, and each must be seen in --stats to
// have taken effect.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/integration/deltafin_program.h"

namespace deltafin::testing {

struct HashCase {
  int num_nodes = 0;             // processes; 0: all in one
  std::string placement = "";    // "random:SEED"
  std::string reply_delay = "";  // of the nodes, "MAX:SEED"
  std::string kernel = "";
  int threads = 0;
  int prefill_chunk = 0;
  std::string ram = "";  // of the expert tier, wherever it is

  // For messages: what differs from the plain case.
  std::string Name() const;
};

// The generation that all cases run.
struct HashedGeneration {
  std::string model;
  std::string prompt_ids;  // 1,2,3
  int num_prompt_ids = 0;
  int max_new_tokens = 0;
  // (token, expert, slice) triples of one token: MoE layers x top_k x slices.
  int64_t slices_per_token = 0;
};

// k3-nano, a prompt of 40 tokens, 12 generated.
HashedGeneration NanoGeneration();
// A tiny random model whose experts have three slices, so that cuts go through
// experts; made in `folder`.
HashedGeneration SlicedGeneration(const std::string& folder);

// Runs the case, checks through --stats that everything in it took effect and
// that the nodes' counters add up, and returns its output_sha256.
std::string RunHashCase(const HashedGeneration& generation,
                        const HashCase& hash_case);

}  // namespace deltafin::testing
