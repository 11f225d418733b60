#include "common/base/model_directory.h"

#include <unistd.h>

#include "absl/strings/match.h"
#include "common/base/file_io.h"
#include "common/base/status_macros.h"

namespace deltafin {

absl::StatusOr<ModelLayout> LayoutOfModel(const std::string& dir) {
  constexpr uint64_t kMaxFormatBytes = 256;
  const std::string path = InstalledPaths(dir).format();
  const absl::StatusOr<std::string> format = ReadFile(path, kMaxFormatBytes);
  if (absl::IsNotFound(format.status())) return ModelLayout::kReleased;
  if (!format.ok()) return format.status();
  if (*format == InstalledPaths::kFormat) return ModelLayout::kInstalled;
  constexpr absl::string_view kAnyModel = "deltafin-model ";
  if (!absl::StartsWith(*format, kAnyModel)) {
    return absl::InvalidArgumentError(fmt::format(
        "{} says '{:.64}', which is no model; name a model's folder", path,
        format->substr(0, format->find('\n'))));
  }
  return absl::InvalidArgumentError(fmt::format(
      "{} says '{}', this program reads '{}': use the version of deltafin that "
      "installed it, or install the model again",
      path, format->substr(0, format->find('\n')),
      InstalledPaths::kFormat.substr(0, InstalledPaths::kFormat.size() - 1)));
}

absl::Status RequireUsable(const std::string& dir) {
  ASSIGN_OR_RETURN(const ModelLayout layout, LayoutOfModel(dir));
  const std::string files = InstalledPaths(dir).files();
  if (layout == ModelLayout::kReleased || access(files.c_str(), F_OK) == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(fmt::format(
      "the installation of {} is not finished: `deltafin setup --resume --dir "
      "{}` goes on with it",
      dir, dir));
}

}  // namespace deltafin
