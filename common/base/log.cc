#include "common/base/log.h"

#include <memory>
#include <string>
#include <utility>

#include "common/base/printable_text.h"
#include "common/base/terminal_colours.h"
#include "spdlog/pattern_formatter.h"
#include "spdlog/sinks/stdout_color_sinks.h"

namespace deltafin {
namespace {

// The message, whose words may be another machine's.
class PrintablePayload : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    const std::string text = PrintableLines(
        std::string_view(message.payload.data(), message.payload.size()));
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<spdlog::custom_flag_formatter> clone() const override {
    return std::make_unique<PrintablePayload>();
  }
};

}  // namespace

void InitLogging(std::string_view program) {
  auto logger = std::make_shared<spdlog::logger>(
      std::string(program),
      std::make_shared<spdlog::sinks::stderr_color_sink_mt>(
          WantsColours() ? spdlog::color_mode::automatic
                         : spdlog::color_mode::never));
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<PrintablePayload>('v').set_pattern(
      "%Y-%m-%d %H:%M:%S.%e %n %^%l%$ %v");
  logger->set_formatter(std::move(formatter));
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
