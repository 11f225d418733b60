#include "common/net/http_message.h"

#include <algorithm>

namespace deltafin {

const std::string* HttpRequest::Header(std::string_view name) const {
  const auto found =
      std::find_if(headers.begin(), headers.end(),
                   [name](const auto& header) { return header.first == name; });
  return found == headers.end() ? nullptr : &found->second;
}

}  // namespace deltafin
