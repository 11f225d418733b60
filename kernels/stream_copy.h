// kernels/stream_copy.h
//
// A copy past the caches, for what is written once and read much later: lines
// that are written whole need not be read from memory first. Private to
// kernels/.
#pragma once

#include <cstddef>
#include <cstdint>

namespace deltafin {

// memcpy, past the caches where the machine can and `out` lies on 64 bytes.
// Until StreamFence other threads may see the old bytes, whatever locks say.
void StreamCopy(uint8_t* out, const uint8_t* in, size_t bytes);

// What this thread has copied is seen by whoever synchronises with it.
void StreamFence();

}  // namespace deltafin
