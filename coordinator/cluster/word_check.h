// coordinator/cluster/word_check.h
//
// Words of nodes that go into logs and tables. Pure.
#pragma once

#include <cstddef>
#include <string_view>

#include "absl/status/status.h"
#include "proto/expert.pb.h"

namespace deltafin {

// INVALID_ARGUMENT for a word that is not `least` to `most` printable ASCII
// characters without blanks.
absl::Status CheckWord(std::string_view field, std::string_view word,
                       size_t least, size_t most);

// The same of every word that a node says of itself; any may be empty.
absl::Status CheckIdentityWords(const v1::HandshakeReply& identity);

}  // namespace deltafin
