#include "coordinator/frontend/openai_open_calls.h"

#include <utility>

#include "coordinator/frontend/openai_error.h"

namespace deltafin {

absl::Status OpenCalls::Add(const std::string& id, std::string_view path) {
  if (answered_.emplace(id, false).second) return absl::OkStatus();
  return FieldError(path, "another call of this message has this id");
}

absl::Status OpenCalls::Answer(const std::string& id, std::string_view path) {
  const auto call = answered_.find(id);
  if (call == answered_.end()) {
    return FieldError(path, "the assistant's last message has no such call");
  }
  if (!std::exchange(call->second, true)) return absl::OkStatus();
  return FieldError(path, "this call has its result already");
}

}  // namespace deltafin
