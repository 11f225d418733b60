// coordinator/engine/request.h
//
// A generation request as the engine sees it: token ids in, token ids out. Text
// lives in the frontend.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "coordinator/engine/token_constraint.h"

namespace deltafin {

// Names a request from Submit on; never reused.
using RequestId = uint64_t;

// docs/numerics.md section 11. Defaults are greedy and change nothing.
struct SamplingOptions {
  float temperature = 0;  // 0: greedy
  int top_k = 0;          // 0: off
  float top_p = 1;        // 1: off
  float min_p = 0;        // 0: off
  uint64_t seed = 0;
  uint32_t choice = 0;  // index among answers drawn for one prompt and seed
  float presence_penalty = 0;   // over output tokens
  float frequency_penalty = 0;  // likewise
  float repetition_penalty =
      1;  // 1: off; over prompt and output, as commonly defined
  std::vector<std::pair<int32_t, float>> logit_bias;
};

enum class FinishReason : uint8_t {
  kNone,
  kStop,        // the end-of-message token
  kLength,      // max_new_tokens or the context bound
  kStopString,  // the sink asked to stop
};

struct TokenLogprob {
  int32_t id = 0;
  float logprob = 0;
};

struct TokenEvent {
  int32_t id = 0;
  int64_t position = 0;  // of this token in the sequence
  float logprob = 0;     // natural log, filled if asked for
  std::span<const TokenLogprob>
      top_logprobs;  // descending; valid during the call
};

struct Usage {
  int prompt_tokens = 0;
  int cached_tokens = 0;  // of the prompt, whose state was there already
  int completion_tokens = 0;
};

struct RequestTimings {
  absl::Duration queue;    // submit to first step
  absl::Duration prefill;  // first step to first token
  absl::Duration decode;   // first token to the end
};

struct RequestResult {
  RequestId id = 0;
  absl::Status status;  // OK, or why the request ended early; tokens already
                        // delivered stay valid
  FinishReason finish_reason = FinishReason::kNone;
  Usage usage;
  RequestTimings timings;
};

enum class SinkAction : uint8_t { kContinue, kStop };

// Receives what a request produces. Called by the engine thread; must not
// block. Must live until OnFinish returns, which is called exactly once, also
// after Cancel and on shutdown.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  // kStop ends the request with kStopString after this token. The
  // end-of-message token is delivered too.
  virtual SinkAction OnToken(const TokenEvent& event) = 0;
  // Logits after `position`, [vocab]; only for requests with want_all_logits.
  // Positions ascend without gaps from 0 to P + N - 2.
  virtual void OnLogits(int64_t position, std::span<const float> logits) {
    (void)position;
    (void)logits;
  }
  virtual void OnFinish(const RequestResult& result) = 0;
};

// Whether steps carry guesses of what follows (speculative decoding). The
// tokens are the same either way.
enum class SpeculationMode : uint8_t {
  kOff,
  kAuto,   // where it should save time
  kForce,  // wherever there is a guess
};

// "off", "auto", "force"; nullopt for any other word.
std::optional<SpeculationMode> ParseSpeculationMode(std::string_view name);

struct GenerationRequest {
  std::vector<int32_t> prompt_ids;  // non-empty, each in [0, vocab)
  int max_new_tokens =
      0;  // 0: evaluate the prompt only (logits rows, no token)
  bool ignore_eos = false;
  SamplingOptions sampling;
  // What may be drawn; null: everything. Not to be shared with another request.
  std::shared_ptr<TokenConstraint> constraint;
  bool want_logprobs = false;
  int top_logprobs = 0;  // 0..20
  // Evaluates every row, so it never starts from a retained state.
  bool want_all_logits = false;
  // The prompt's first tokens that other requests probably begin with, such as
  // the instructions of a chat: the state after them is retained as well. 0:
  // not known.
  int64_t shared_prefix_tokens = 0;
  // nullopt: as the engine is configured. With want_all_logits there is none.
  std::optional<SpeculationMode> speculation;
  absl::Time deadline = absl::InfiniteFuture();
};

}  // namespace deltafin
