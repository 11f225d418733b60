#include "common/base/check.h"

#include <cstdlib>

#include "spdlog/spdlog.h"

namespace deltafin {

void CheckFailed(const char* file, int line, const char* condition,
                 const std::string& message) {
  spdlog::critical("{}:{}: check failed: {}{}{}", file, line, condition,
                   message.empty() ? "" : ": ", message);
  spdlog::default_logger()->flush();
  std::abort();
}

}  // namespace deltafin
