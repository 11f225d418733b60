// common/base/model_directory.h
//
// The two kinds of folder that a model lies in: its files as released, or what
// `deltafin setup` made of them (docs/installed_model.md).
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace deltafin {

enum class ModelLayout { kReleased, kInstalled };

// Reads DIR/format; a folder without it is taken for released files. Errors:
// INVALID_ARGUMENT for a format of another version, naming both.
absl::StatusOr<ModelLayout> LayoutOfModel(const std::string& dir);

// Errors: INVALID_ARGUMENT for an installation that was begun and did not
// get as far as the experts, with what to do; those of LayoutOfModel.
absl::Status RequireUsable(const std::string& dir);

// Where things lie in an installed model.
class InstalledPaths {
 public:
  explicit InstalledPaths(std::string dir) : dir_(std::move(dir)) {}

  static constexpr std::string_view kFormat = "deltafin-model 1\n";

  const std::string& dir() const { return dir_; }
  std::string format() const { return dir_ + "/format"; }
  // What it was installed from.
  std::string source() const { return dir_ + "/source"; }
  // Manifest of the released files.
  std::string manifest() const { return dir_ + "/manifest"; }
  // Sizes and digests of the installed files, experts excepted.
  std::string files() const { return dir_ + "/files"; }
  // Names of the shards that were put together again from what is installed
  // and had the SHA-256 of the released ones, one a line.
  std::string compared() const { return dir_ + "/compared"; }
  std::string index() const { return dir_ + "/model.safetensors.index.json"; }
  // Per released shard: its tensors that are no routed experts.
  std::string spine_folder() const { return dir_ + "/spine"; }
  // Per released shard: its first bytes, up to its tensors.
  std::string header_folder() const { return dir_ + "/headers"; }
  std::string header(std::string_view shard) const {
    return header_folder() + "/" + std::string(shard) + ".header";
  }
  std::string experts_folder() const { return dir_ + "/experts"; }

 private:
  std::string dir_;
};

}  // namespace deltafin
