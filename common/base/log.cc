#include "common/base/log.h"

#include <memory>
#include <string>

#include "spdlog/sinks/stdout_color_sinks.h"

namespace deltafin {

void InitLogging(std::string_view program) {
  auto logger = std::make_shared<spdlog::logger>(
      std::string(program),
      std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  logger->set_pattern("%Y-%m-%d %H:%M:%S.%e %n %^%l%$ %v");
  logger->flush_on(spdlog::level::warn);
  spdlog::set_default_logger(std::move(logger));
}

absl::Status SetLogLevel(std::string_view level) {
  struct Level {
    std::string_view name;
    spdlog::level::level_enum value;
  };
  static constexpr Level kLevels[] = {
      {"trace", spdlog::level::trace}, {"debug", spdlog::level::debug},
      {"info", spdlog::level::info},   {"warn", spdlog::level::warn},
      {"error", spdlog::level::err},   {"off", spdlog::level::off}};
  for (const Level& known : kLevels) {
    if (known.name != level) continue;
    spdlog::set_level(known.value);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      fmt::format("log level '{}' is unknown; use trace, debug, info, warn, "
                  "error or off",
                  level));
}

}  // namespace deltafin
