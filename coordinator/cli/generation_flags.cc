#include "coordinator/cli/generation_flags.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "coordinator/cli/exit_code.h"

namespace deltafin {
namespace {

constexpr char kSamplingGroup[] = "Sampling";

absl::Status CheckRange(const char* flag, float value, float least,
                        float most) {
  if (std::isfinite(value) && value >= least && value <= most) {
    return absl::OkStatus();
  }
  return UsageError(absl::StrCat(flag, ": ", value, " is not between ", least,
                                 " and ", most));
}

absl::Status FirstError(std::initializer_list<absl::Status> statuses) {
  for (const absl::Status& status : statuses) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

void GenerationFlags::AddTo(CLI::App& app) {
  app.add_option("--max-new-tokens", max_new_tokens_,
                 "Tokens to generate at most")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--ignore-eos", ignore_eos_,
               "Go on after the end-of-message token");
  const auto add = [&app](const char* name, auto& value, const char* help) {
    return app.add_option(name, value, help)->group(kSamplingGroup);
  };
  add("--temperature", sampling_.temperature,
      "0 takes the likeliest token (default); higher is more varied");
  add("--top-p", sampling_.top_p,
      "Draw from the likeliest tokens that together have this probability");
  add("--top-k", sampling_.top_k, "Draw from the K likeliest tokens");
  add("--min-p", sampling_.min_p,
      "Drop tokens below this fraction of the likeliest one's probability");
  add("--seed", sampling_.seed,
      "Same seed, same text, whatever else runs (default: 0)");
  add("--presence-penalty", sampling_.presence_penalty,
      "Lower tokens that were generated, once");
  add("--frequency-penalty", sampling_.frequency_penalty,
      "Lower tokens that were generated, each time");
  add("--repetition-penalty", sampling_.repetition_penalty,
      "Divide the score of tokens seen in prompt or text (1: off)");
  add("--stop", stop_, "End before this text; may be given several times")
      ->allow_extra_args(false);
  add("--logprobs", logprobs_,
      "With --json: log-probability of each token and of its N likeliest "
      "alternatives");
}

absl::StatusOr<GenerationRequest> GenerationFlags::Request() const {
  const absl::Status status = FirstError({
      CheckRange("--temperature", sampling_.temperature, 0, 100),
      CheckRange("--top-p", sampling_.top_p, 0, 1),
      CheckRange("--min-p", sampling_.min_p, 0, 1),
      CheckRange("--top-k", static_cast<float>(sampling_.top_k), 0, 1e9f),
      CheckRange("--presence-penalty", sampling_.presence_penalty, -100, 100),
      CheckRange("--frequency-penalty", sampling_.frequency_penalty, -100, 100),
      CheckRange("--repetition-penalty", sampling_.repetition_penalty, 0.01f,
                 100),
      CheckRange("--logprobs", static_cast<float>(logprobs_), -1, 20),
  });
  if (!status.ok()) return status;
  GenerationRequest request;
  request.max_new_tokens = max_new_tokens_;
  request.ignore_eos = ignore_eos_;
  request.sampling = sampling_;
  request.want_logprobs = logprobs_ >= 0;
  request.top_logprobs = logprobs_ > 0 ? logprobs_ : 0;
  return request;
}

}  // namespace deltafin
