#include "common/base/terminal_colours.h"

#include <cstdlib>
#include <string_view>

namespace deltafin {

bool WantsColours() {
  const char* const no_color = std::getenv("NO_COLOR");
  const char* const terminal = std::getenv("TERM");
  return (no_color == nullptr || *no_color == '\0') &&
         (terminal == nullptr || std::string_view(terminal) != "dumb");
}

}  // namespace deltafin
