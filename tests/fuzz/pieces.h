// tests/fuzz/pieces.h
//
// One input as a sequence of messages: two bytes of length, then the message's
// bytes, again and again.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace deltafin {

// Takes the next message off `bytes`; one that is cut short is what is left.
inline std::span<const uint8_t> TakePiece(std::span<const uint8_t>& bytes) {
  if (bytes.size() < 2) {
    bytes = {};
    return bytes;
  }
  const size_t length = bytes[0] | size_t{bytes[1]} << 8;
  const auto piece = bytes.subspan(2, std::min(length, bytes.size() - 2));
  bytes = bytes.subspan(2 + piece.size());
  return piece;
}

}  // namespace deltafin
