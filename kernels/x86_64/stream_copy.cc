// Of SSE2, which every x86-64 machine has.
#include "kernels/stream_copy.h"

#include <emmintrin.h>

#include <cstring>

namespace deltafin {

void StreamCopy(uint8_t* out, const uint8_t* in, size_t bytes) {
  constexpr size_t kLine = 64;
  if (reinterpret_cast<uintptr_t>(out) % kLine == 0) {
    for (; bytes >= kLine; bytes -= kLine) {
      const auto* const from = reinterpret_cast<const __m128i*>(in);
      auto* const to = reinterpret_cast<__m128i*>(out);
      // The four of a line one after the other, so that they leave together.
      _mm_stream_si128(to, _mm_loadu_si128(from));
      _mm_stream_si128(to + 1, _mm_loadu_si128(from + 1));
      _mm_stream_si128(to + 2, _mm_loadu_si128(from + 2));
      _mm_stream_si128(to + 3, _mm_loadu_si128(from + 3));
      in += kLine;
      out += kLine;
    }
  }
  std::memcpy(out, in, bytes);
}

void StreamFence() { _mm_sfence(); }

}  // namespace deltafin
