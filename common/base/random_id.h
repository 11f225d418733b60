// common/base/random_id.h
//
// Numbers and names that no two processes share. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

namespace deltafin {

// From the system's random source; never 0.
uint64_t RandomNumber();
// 128 random bits as 32 hex digits.
std::string RandomId();
// The form of RandomId.
bool IsRandomId(const std::string& text);

}  // namespace deltafin
