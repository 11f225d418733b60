// common/base/terminal_colours.h
//
// Whether what goes to a terminal may be coloured.
#pragma once

namespace deltafin {

// Unless NO_COLOR (no-color.org) or a terminal that can nothing says otherwise.
// Whether the stream is a terminal at all, its writer asks.
bool WantsColours();

}  // namespace deltafin
