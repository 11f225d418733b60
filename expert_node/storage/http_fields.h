// expert_node/storage/http_fields.h
//
// Values of HTTP header fields, as a server that is not trusted sends them.
// Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/time/time.h"

namespace deltafin {

// Decimal digits alone that fit; nullopt otherwise.
std::optional<uint64_t> ParseDecimal(std::string_view text);

struct ContentRange {
  uint64_t first = 0;
  uint64_t last = 0;   // inclusive, >= first
  uint64_t total = 0;  // > last
};

// "bytes FIRST-LAST/TOTAL"; an unknown total ("*") is nullopt, too.
std::optional<ContentRange> ParseContentRange(std::string_view text);

// The target of Link's rel="next"; empty without one.
std::string NextLink(std::string_view link);

// Retry-After: seconds, or a date from which `now` is subtracted; never
// negative.
std::optional<absl::Duration> ParseRetryAfter(std::string_view text,
                                              absl::Time now);

// An entity tag without W/, quotes and the suffix that servers add for a
// compressed form ("-gzip", ";br"); empty for an empty field.
std::string NormalizedEtag(std::string_view etag);

}  // namespace deltafin
