#include "common/base/progress.h"

#include <unistd.h>

#include <utility>

#include "common/base/memory_budget.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

std::string MinutesAndSeconds(double seconds) {
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60,
                     whole % 60);
}

}  // namespace

std::string ProgressLine(const std::string& label, uint64_t done_bytes,
                         uint64_t total_bytes, absl::Duration elapsed) {
  const double done = static_cast<double>(done_bytes);
  const double total = static_cast<double>(total_bytes);
  const int percent =
      total_bytes == 0 ? 100 : static_cast<int>(100 * done / total);
  std::string line =
      fmt::format("{}  {}%  {} of {}", label, percent,
                  FormatByteSize(done_bytes), FormatByteSize(total_bytes));
  const double seconds = absl::ToDoubleSeconds(elapsed);
  if (done_bytes == 0 || seconds <= 0) return line;
  const double rate = done / seconds;
  line += fmt::format("  {}/s", FormatByteSize(static_cast<uint64_t>(rate)));
  if (done_bytes < total_bytes) {
    line += fmt::format("  {} left", MinutesAndSeconds((total - done) / rate));
  }
  return line;
}

Progress::Progress(std::string label, std::FILE* stream, const Clock& clock)
    : label_(std::move(label)),
      stream_(stream),
      clock_(clock),
      is_terminal_(isatty(fileno(stream)) == 1),
      start_(clock.Elapsed()) {}

Progress::~Progress() {
  if (drawn_) std::fputc('\n', stream_);
}

void Progress::Update(uint64_t done_bytes, uint64_t total_bytes) {
  if (!is_terminal_) return;
  const absl::Duration now = clock_.Elapsed();
  const bool complete = done_bytes >= total_bytes;
  if (!complete && now - last_draw_ < absl::Milliseconds(100)) return;
  last_draw_ = now;
  drawn_ = true;
  // Back to the line's start, then clear what is longer than the new text.
  std::fprintf(
      stream_, "\r%s\x1b[K",
      ProgressLine(label_, done_bytes, total_bytes, now - start_).c_str());
  std::fflush(stream_);
}

}  // namespace deltafin
