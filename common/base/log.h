// common/base/log.h
//
// The process log: lines on standard error through spdlog. Code logs with
// spdlog::info(...) and its siblings; nothing per token or layer at info.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "spdlog/spdlog.h"  // IWYU pragma: export

namespace deltafin {

// Sends the default logger to standard error, each line marked with `program`.
// Call once, at the start of main.
void InitLogging(std::string_view program);

// "trace", "debug", "info", "warn", "error" or "off". Errors: INVALID_ARGUMENT
// that lists the names.
absl::Status SetLogLevel(std::string_view level);

}  // namespace deltafin
