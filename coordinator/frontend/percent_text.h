// coordinator/frontend/percent_text.h
//
// Text as paths of URLs have it. Thread-safe.
// Source: https://www.rfc-editor.org/rfc/rfc3986#section-2.1
#pragma once

#include <string>
#include <string_view>

namespace deltafin {

// The text with a byte for every % and two hexadecimal digits; a % without them
// stands for itself.
std::string PercentDecoded(std::string_view text);

}  // namespace deltafin
