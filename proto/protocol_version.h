// proto/protocol_version.h
//
// Versions that the handshake between a coordinator and an expert node
// compares.
#pragma once

#include <cstdint>

namespace deltafin {

// Meaning of the messages of expert.proto.
inline constexpr uint32_t kWireVersion = 3;
// Arithmetic of docs/numerics.md: its version number.
inline constexpr uint32_t kNumericsVersion = 1;

}  // namespace deltafin
