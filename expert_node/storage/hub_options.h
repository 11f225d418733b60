// expert_node/storage/hub_options.h
//
// How a source of Hugging Face is reached, and how patiently.
#pragma once

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "expert_node/storage/http_range_reader.h"
#include "expert_node/storage/hub_environment.h"
#include "expert_node/storage/retry_budget.h"

namespace deltafin {

struct RetryOptions {
  // Failures of one request in a row, without a byte between them, after which
  // its error is given up to the caller.
  int max_failures = 8;
  // Answers in a row that are not the wanted bytes.
  int max_wrong_answers = 3;
  // Pause after the first failure; doubles up to longest_backoff, and each is
  // drawn between half and all of it.
  absl::Duration first_backoff = absl::Milliseconds(500);
  absl::Duration longest_backoff = absl::Seconds(30);
};

struct SlowRangeOptions {
  // A range that takes `factor` times as long as the median of the last ranges
  // says, and at least `least`, is issued a second time, once.
  double factor = 4;
  absl::Duration least = absl::Seconds(3);
  // Ranges that must have been measured before.
  int min_samples = 8;
  // Second requests on their way at once; each needs memory for what is
  // missing of its range.
  int max_at_once = 2;
};

struct HubOptions {
  HubAccess access;
  ModelRevision model;
  HttpOptions http;
  RetryOptions retry;
  SlowRangeOptions slow;
  // Shared by all sources of an endpoint; null: one of its own.
  std::shared_ptr<RetryBudget> budget;
};

}  // namespace deltafin
