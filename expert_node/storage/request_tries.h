// expert_node/storage/request_tries.h
//
// When a request that failed is sent again, and when its error is final.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "expert_node/storage/http_answer.h"
#include "expert_node/storage/hub_options.h"
#include "expert_node/storage/retry_budget.h"

namespace deltafin {

// What the requests of a source share. Thread-safe.
class RequestPace {
 public:
  RequestPace(const RetryOptions& options, std::shared_ptr<RetryBudget> budget);

  const RetryOptions& options() const { return options_; }
  RetryBudget& budget() { return *budget_; }

  // Blocks until `duration` has passed and no pause is left. Errors: CANCELLED.
  absl::Status Wait(absl::Duration duration);
  // Ends every Wait, now and later.
  void Cancel();

  void CountRetry() { ++retries_; }
  uint64_t retries() const { return retries_; }

 private:
  const RetryOptions options_;
  const std::shared_ptr<RetryBudget> budget_;
  Mutex mutex_;
  CondVar cancelled_changed_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::atomic<uint64_t> retries_{0};
};

// The tries of one request. Thread-compatible.
class RequestTries {
 public:
  explicit RequestTries(RequestPace& pace) : pace_(pace) {}

  // Waits for the first try. Errors: CANCELLED.
  absl::Status Begin() { return pace_.Wait(absl::ZeroDuration()); }

  // Something arrived: failures in a row count from here.
  void Progressed();

  // After a try that failed with `failure` and, where one came, `answer`: OK
  // when it has waited and the request may be sent again. Otherwise `failure`,
  // with what was tried.
  absl::Status Again(const absl::Status& failure, const HttpAnswer* answer);

 private:
  RequestPace& pace_;
  int failures_ = 0;
  int wrong_answers_ = 0;
};

// Statuses that another try may cure: 408, 429 and 5xx.
bool IsTransient(int status);

}  // namespace deltafin
