// coordinator/frontend/api_keys.h
//
// The keys that clients of the HTTP API show. Immutable; thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace deltafin {

class ApiKeys {
 public:
  // None: everybody is let in.
  ApiKeys() = default;

  // A file with one key a line, readable by its owner alone; blank lines and
  // those that begin with '#' are skipped. Blocks on disk. Errors:
  // INVALID_ARGUMENT naming the line whose key is shorter than 16 characters or
  // holds others than printable ASCII, or a file without keys; those of
  // ReadSecretFile. None tells a key.
  static absl::StatusOr<ApiKeys> Load(const std::string& path);

  bool empty() const { return digests_.empty(); }

  // Whether an Authorization header ("Bearer KEY") shows one of the keys. Takes
  // as long for every wrong key of a length.
  bool Accept(std::string_view authorization) const;

 private:
  std::vector<std::string> digests_;  // SHA-256, hex
};

}  // namespace deltafin
