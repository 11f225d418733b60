// common/base/printable_text.h
//
// Words of others on their way to a terminal or a log, which obey control
// characters. Pure.
#pragma once

#include <string>
#include <string_view>

namespace deltafin {

// Every control character of ASCII, and of U+0080 to U+009F in UTF-8, becomes
// '?'; other bytes stay.
std::string OneLine(std::string_view text);

// The same, but newlines stay.
std::string PrintableLines(std::string_view text);

}  // namespace deltafin
