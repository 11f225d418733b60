#include "coordinator/frontend/resumable_streams.h"

#include <charconv>
#include <utility>

#include "absl/strings/str_split.h"
#include "common/base/random_id.h"
#include "common/base/status_macros.h"
#include "coordinator/frontend/openai_error.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {

void ResumableStreams::DropOver() {
  absl::erase_if(streams_, [](const auto& entry) {
    return !entry.second->is_resumable();
  });
}

absl::StatusOr<std::string> ResumableStreams::Add(
    std::shared_ptr<EventStream> stream) {
  MutexLock lock(mutex_);
  DropOver();
  if (streams_.size() >= kMaxStreams) {
    return absl::ResourceExhaustedError(
        fmt::format("{} streams wait to be resumed; ask without "
                    "stream_options.resumable, or later",
                    streams_.size()));
  }
  std::string id = RandomId();
  streams_[id] = std::move(stream);
  return id;
}

absl::StatusOr<std::shared_ptr<EventStream>> ResumableStreams::Find(
    std::string_view id) {
  MutexLock lock(mutex_);
  return FindLocked(id);
}

absl::StatusOr<std::shared_ptr<EventStream>> ResumableStreams::Remove(
    std::string_view id) {
  MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(std::shared_ptr<EventStream> stream, FindLocked(id));
  streams_.erase(absl::string_view(id.data(), id.size()));
  return stream;
}

absl::StatusOr<std::shared_ptr<EventStream>> ResumableStreams::FindLocked(
    std::string_view id) {
  DropOver();
  const auto found = streams_.find(absl::string_view(id.data(), id.size()));
  if (found == streams_.end()) {
    return absl::NotFoundError(
        "there is no such stream, or its time to be resumed is over");
  }
  return found->second;
}

absl::StatusOr<uint64_t> ParseFrom(std::string_view query) {
  constexpr std::string_view kName = "from=";
  uint64_t from = 1;
  for (const absl::string_view part :
       absl::StrSplit(absl::string_view(query.data(), query.size()), '&',
                      absl::SkipEmpty())) {
    const std::string_view parameter(part.data(), part.size());
    const std::string_view name = parameter.substr(0, parameter.find('='));
    if (!parameter.starts_with(kName)) {
      return FieldError(name, "no parameter of this path", "unknown_parameter");
    }
    const std::string_view value = parameter.substr(kName.size());
    const char* const end = value.data() + value.size();
    const auto [rest, error] = std::from_chars(value.data(), end, from);
    if (error != std::errc() || rest != end || from == 0) {
      return FieldError("from", "expected the number of an event, from 1 on");
    }
  }
  return from;
}

}  // namespace deltafin
