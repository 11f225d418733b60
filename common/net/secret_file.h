// common/net/secret_file.h
//
// Files that hold a secret: readable by their owner alone, and never replaced.
// All calls block on disk; errors name the path, never the contents.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace deltafin {

inline constexpr mode_t kSecretMode = 0600;
inline constexpr mode_t kPublicMode = 0644;

// The whole file. Errors: PERMISSION_DENIED, with what to do, when its group or
// others may read or write it, unless the group is root's and may read alone
// (systemd's credentials); those of ReadFile.
absl::StatusOr<std::string> ReadSecretFile(const std::string& path,
                                           uint64_t max_bytes);

// Makes a file that appears complete, or not at all. Errors: ALREADY_EXISTS,
// and what is there stays.
absl::Status WriteNewFile(const std::string& path, std::string_view contents,
                          mode_t mode);

}  // namespace deltafin
