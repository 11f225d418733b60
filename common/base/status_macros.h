// common/base/status_macros.h
//
// Early return on a bad absl::Status, and context added on the way up.
#pragma once

#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {

// The same code with the message "context: message". OK stays OK.
inline absl::Status AddContext(const absl::Status& status,
                               std::string_view context) {
  if (status.ok()) return status;
  const absl::string_view message = status.message();
  return absl::Status(
      status.code(),
      fmt::format("{}: {}", context,
                  std::string_view(message.data(), message.size())));
}

}  // namespace deltafin

#define DELTAFIN_CONCAT_INNER(a, b) a##b
#define DELTAFIN_CONCAT(a, b) DELTAFIN_CONCAT_INNER(a, b)

#define RETURN_IF_ERROR(expr)                                           \
  do {                                                                  \
    if (absl::Status deltafin_status = (expr); !deltafin_status.ok()) { \
      return deltafin_status;                                           \
    }                                                                   \
  } while (false)

// ASSIGN_OR_RETURN(auto x, StatusOrExpression);
#define ASSIGN_OR_RETURN(lhs, expr) \
  DELTAFIN_ASSIGN_OR_RETURN(DELTAFIN_CONCAT(status_or_, __LINE__), lhs, expr)
#define DELTAFIN_ASSIGN_OR_RETURN(result, lhs, expr) \
  auto result = (expr);                              \
  if (!result.ok()) return result.status();          \
  lhs = std::move(result).value()
