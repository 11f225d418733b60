// coordinator/frontend/openai_open_calls.h
//
// Whether the results of tools in a conversation answer the calls before them.
// Not thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"

namespace deltafin {

// The calls of the assistant's last message.
class OpenCalls {
 public:
  // Another message of the assistant.
  void BeginMessage() { answered_.clear(); }

  // Errors, naming `path`: INVALID_ARGUMENT: the message has two calls of this
  // id, so that nobody could tell whose a result is.
  absl::Status Add(const std::string& id, std::string_view path);

  // Errors, naming `path`: INVALID_ARGUMENT: no call has this id, or it has its
  // result.
  absl::Status Answer(const std::string& id, std::string_view path);

 private:
  absl::flat_hash_map<std::string, bool> answered_;  // by id
};

}  // namespace deltafin
