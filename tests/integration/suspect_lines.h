// tests/integration/suspect_lines.h
//
// Whom a coordinator took for silent or lost, by its log. A machine that is
// busy enough makes any node look so, and its work is then given to others, who
// may have to fetch for it.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace deltafin::testing {

// Lines that call a node suspect or gone, those about `address` excepted.
inline int SuspectLines(std::string_view log, const std::string& address) {
  int count = 0;
  while (!log.empty()) {
    const std::string_view line = log.substr(0, log.find('\n'));
    log.remove_prefix(std::min(log.size(), line.size() + 1));
    const bool is_one = line.find(" is suspect") != line.npos ||
                        line.find(" is gone") != line.npos;
    count += is_one && line.find(address) == line.npos;
  }
  return count;
}

}  // namespace deltafin::testing
