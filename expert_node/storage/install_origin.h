// expert_node/storage/install_origin.h
//
// What a model is installed from, and how much of it: DIR/source of an
// installed model (docs/installed_model.md).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/base/model_directory.h"
#include "expert_node/storage/hub_environment.h"
#include "expert_node/storage/model_source.h"

namespace deltafin {

struct InstallOrigin {
  enum class Experts { kAll, kOnDemand };

  std::string directory;   // of released files; empty: the repository
  ModelRevision revision;  // a commit, once it is kept
  Experts experts = Experts::kAll;

  // "directory /models/Kimi-K3" or "repository OWNER/NAME@COMMIT", and "experts
  // all" or "experts on-demand", a line each; and back. Errors: DATA_LOSS.
  std::string Text() const;
  static absl::StatusOr<InstallOrigin> Parse(std::string_view text);

  // For messages and comparison: the directory or OWNER/NAME@REVISION.
  std::string name() const;
};

// Reads DIR/source. Errors: NOT_FOUND when there is none, with what to do.
absl::StatusOr<InstallOrigin> ReadInstallOrigin(const InstalledPaths& paths);

struct OpenedSource {
  std::shared_ptr<ModelSource> source;
  InstallOrigin origin;          // with the commit that it is
  std::function<void()> cancel;  // ends reads under way; never null
};

// Opens the directory, or asks the Hub. Errors: those of DirectorySource::Open
// and HubSource::Create.
absl::StatusOr<OpenedSource> OpenOrigin(const InstallOrigin& origin,
                                        const HubAccess& access);

}  // namespace deltafin
