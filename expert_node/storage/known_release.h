// expert_node/storage/known_release.h
//
// Files of the released Kimi K3 whose size and SHA-256 are known beforehand
// (docs/model.md section 7.3).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace deltafin {

// Whether a directory with this config.json says that it is K3.
bool IsKimiK3Config(uint64_t bytes, std::string_view sha256);

// Whether `repository` at `commit` is a release of Kimi K3 that is known here.
bool IsKnownRelease(std::string_view repository, std::string_view commit);

// Compares a file of Kimi K3 with what is known of it; files of which nothing
// is known pass. Errors: DATA_LOSS with both sizes or digests.
absl::Status CheckKnownFile(const std::string& file, uint64_t bytes,
                            std::string_view sha256);

}  // namespace deltafin
