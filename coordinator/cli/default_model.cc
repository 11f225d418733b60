#include "coordinator/cli/default_model.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace deltafin {
namespace {

namespace fs = std::filesystem;

bool IsModelDir(const fs::path& dir) {
  std::error_code error;
  return fs::exists(dir / "config.json", error);
}

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::string ExecutablePath() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).string();
}

absl::StatusOr<std::string> DefaultModelDir() {
  const fs::path executable = ExecutablePath();
  const fs::path installed =
      executable.parent_path().parent_path() / "share/deltafin/models/k3-nano";
  if (IsModelDir(installed)) return installed.string();
  // Only a program inside the build folder may fall back on the source tree.
  const fs::path relative = executable.lexically_relative(DELTAFIN_BUILD_DIR);
  if (!relative.empty() && *relative.begin() != "..") {
    const fs::path source = DELTAFIN_SOURCE_MODEL_DIR;
    if (IsModelDir(source)) return source.string();
  }
  return absl::NotFoundError(
      absl::StrCat("no model was named and none is installed at ",
                   installed.string(), "; give one with --model DIR"));
}

std::string DefaultCacheDir() {
  const std::string cache_home = Variable("XDG_CACHE_HOME");
  if (!cache_home.empty()) return cache_home + "/deltafin";
  const std::string home = Variable("HOME");
  return home.empty() ? "" : home + "/.cache/deltafin";
}

}  // namespace deltafin
