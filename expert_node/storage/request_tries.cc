#include "expert_node/storage/request_tries.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/random_id.h"
#include "expert_node/storage/http_fields.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

// In [0, 1).
double Random() { return static_cast<double>(RandomNumber() >> 11) * 0x1p-53; }

absl::Status GivenUp(const absl::Status& failure, const std::string& why) {
  return absl::Status(
      failure.code(),
      fmt::format("{} ({})", std::string(failure.message()), why));
}

}  // namespace

bool IsTransient(int status) {
  return status == 408 || status == 429 || status >= 500;
}

RequestPace::RequestPace(const RetryOptions& options,
                         std::shared_ptr<RetryBudget> budget)
    : options_(options),
      budget_(budget ? std::move(budget) : std::make_shared<RetryBudget>()) {}

absl::Status RequestPace::Wait(absl::Duration duration) {
  const Clock& clock = budget_->clock();
  const absl::Time own = clock.Now() + duration;
  MutexLock lock(mutex_);
  while (!cancelled_) {
    const absl::Duration left =
        std::max(own, budget_->not_before()) - clock.Now();
    if (left <= absl::ZeroDuration()) return absl::OkStatus();
    cancelled_changed_.WaitUntil(mutex_, absl::Now() + left);
  }
  return absl::CancelledError("cancelled");
}

void RequestPace::Cancel() {
  MutexLock lock(mutex_);
  cancelled_ = true;
  cancelled_changed_.NotifyAll();
}

void RequestTries::Progressed() { failures_ = wrong_answers_ = 0; }

absl::Status RequestTries::Again(const absl::Status& failure,
                                 const HttpAnswer* answer) {
  const RetryOptions& options = pace_.options();
  if (!absl::IsUnavailable(failure) && !absl::IsDataLoss(failure)) {
    return failure;
  }
  ++failures_;
  if (absl::IsDataLoss(failure)) ++wrong_answers_;
  if (failures_ >= options.max_failures ||
      wrong_answers_ >= options.max_wrong_answers) {
    return GivenUp(failure, fmt::format("tried {} times", failures_));
  }
  const absl::Duration backoff =
      std::min(options.first_backoff * std::exp2(failures_ - 1),
               options.longest_backoff);
  pace_.CountRetry();
  const bool says_when =
      answer != nullptr && !answer->field("retry-after").empty();
  if (answer != nullptr && (answer->status == 429 || says_when)) {
    const absl::Duration asked = ParseRetryAfter(answer->field("retry-after"),
                                                 pace_.budget().clock().Now())
                                     .value_or(backoff);
    if (!pace_.budget().Pause(asked)) {
      return GivenUp(failure, fmt::format("to be tried again in {} s",
                                          absl::ToInt64Seconds(asked)));
    }
    return pace_.Wait(asked * (1 + 0.1 * Random()));  // not all at once
  }
  if (!pace_.budget().TakeRetry()) {
    return GivenUp(failure, "too many retries of late; try again later");
  }
  return pace_.Wait(backoff * (0.5 + 0.5 * Random()));
}

}  // namespace deltafin
