// common/base/check.h
//
// Assertions about our own code. Never for bytes from disk or network: those
// end in an absl::Status.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace deltafin {

// Logs file, line, condition and message, flushes the log and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              const std::string& message = "");

}  // namespace deltafin

// CHECK(condition) or CHECK(condition, message).
#define CHECK(condition, ...)                        \
  (__builtin_expect(static_cast<bool>(condition), 1) \
       ? static_cast<void>(0)                        \
       : ::deltafin::CheckFailed(__FILE__, __LINE__, \
                                 #condition __VA_OPT__(, ) __VA_ARGS__))

#define CHECK_OK(expr)                                                        \
  do {                                                                        \
    if (const absl::Status deltafin_status = (expr); !deltafin_status.ok()) { \
      ::deltafin::CheckFailed(__FILE__, __LINE__, #expr,                      \
                              deltafin_status.ToString());                    \
    }                                                                         \
  } while (false)

// For hot loops: compiled, but not evaluated, when NDEBUG is defined.
#ifdef NDEBUG
#define DCHECK(condition, ...) \
  static_cast<void>(sizeof(static_cast<bool>(condition)))
#else
#define DCHECK(condition, ...) CHECK(condition __VA_OPT__(, ) __VA_ARGS__)
#endif
