#include "coordinator/engine/request_history.h"

#include <string>
#include <utility>

#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

std::string IdsOf(const std::deque<v1::Explanation>& requests) {
  std::string ids;
  for (const v1::Explanation& known : requests) {
    ids += fmt::format("{}{}", ids.empty() ? "" : ", ", known.request());
  }
  return ids;
}

}  // namespace

void RequestHistory::Add(v1::Explanation explanation) {
  MutexLock lock(mutex_);
  requests_.push_back(std::move(explanation));
  if (requests_.size() > kMaxRequests) requests_.pop_front();
}

absl::StatusOr<v1::Explanation> RequestHistory::Find(uint64_t request) const {
  MutexLock lock(mutex_);
  if (requests_.empty()) {
    return absl::NotFoundError("no request has finished yet");
  }
  if (request == 0) return requests_.back();
  for (const v1::Explanation& known : requests_) {
    if (known.request() == request) return known;
  }
  return absl::NotFoundError(
      fmt::format("request {} is not among the last {} that finished: {}",
                  request, requests_.size(), IdsOf(requests_)));
}

}  // namespace deltafin
