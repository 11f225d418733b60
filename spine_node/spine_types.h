// spine_node/spine_types.h
//
// What passes between the layer loop and a spine. Plain data; letters: T tokens
// of the step, H hidden, L latent, K top-k, V vocabulary.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace deltafin {

enum class LogitsRows : uint8_t { kNone, kLast, kAll };

// State of one sequence inside a spine: KDA matrices, convolution history, MLA
// latent cache. Created by Spine::NewSequence and used only by the engine
// thread with the spine that made it.
class SequenceState {
 public:
  virtual ~SequenceState() = default;
  virtual int64_t num_tokens()
      const = 0;                      // tokens whose effect the state holds
  virtual int64_t bytes() const = 0;  // memory held now
};

// The part of one sequence in a step: ids at positions state->num_tokens() ...
// Several sequences may share a step; one sequence appears once.
struct SequenceSlice {
  SequenceState* state = nullptr;
  std::span<const int32_t> ids;
  LogitsRows logits = LogitsRows::kLast;
  // The last so many ids are guesses that Spine::TakeBack may take back before
  // the sequence's next step. Fewer than ids.size(), at most
  // SpineDescription::max_drafts.
  int num_drafts = 0;
};

// Router output of one layer for the T tokens of the step. Owned by the spine;
// valid until the next call of Route.
struct RoutedTokens {
  int num_tokens = 0;
  int top_k = 0;
  std::span<const int32_t> experts;  // [T, K], ascending in each row
  std::span<const float> weights;    // [T, K]
  std::span<const float> latent;     // [T, L]
};

struct SpineDescription {
  std::string name;    // "cpu-bf16", "cpu-int8", "torch-cpu", "torch-cuda"
  std::string kernel;  // kernel target of a CPU spine, empty otherwise
  int64_t weight_bytes = 0;          // resident
  int64_t sequence_fixed_bytes = 0;  // per sequence, whatever its length
  int64_t sequence_token_bytes = 0;  // per token and sequence
  int max_drafts = 0;                // of a slice; 0: none can be taken back
  int64_t sequence_draft_bytes = 0;  // per sequence, once it had drafts
};

// Where the time of the spine went since the last reset, in seconds.
struct SpineTimings {
  double read = 0;       // reading weights (embedding rows)
  double attention = 0;  // attention core: KDA steps, MLA scores
  double compute = 0;    // everything else
  double head = 0;       // final norm and lm_head
};

}  // namespace deltafin
