// common/net/cluster_token.h
//
// The shared secret of a cluster: 32 random bytes in a file of its own, which
// is copied to every machine and never sent over the network.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace deltafin {

using ClusterToken = std::array<uint8_t, 32>;

// Lines of 64 hexadecimal digits: the first token is the one to prove with, the
// others are accepted, too, while a cluster changes its token. Blank lines and
// lines that begin with # say nothing. Errors: INVALID_ARGUMENT with the line's
// number, never its text: no token, more than four, a token that is none or
// that was not made at random.
absl::StatusOr<std::vector<ClusterToken>> ParseClusterTokens(
    std::string_view text);

// Errors: those of ReadSecretFile and ParseClusterTokens, with the path.
absl::StatusOr<std::vector<ClusterToken>> ReadClusterTokens(
    const std::string& path);

// Makes a file with a new token. Errors: those of WriteNewFile.
absl::Status MakeClusterTokenFile(const std::string& path);

}  // namespace deltafin
