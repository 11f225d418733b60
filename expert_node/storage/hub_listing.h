// expert_node/storage/hub_listing.h
//
// The Hub's JSON: the commit of a revision, pages of a list of files. Pure;
// every field is checked. Errors: DATA_LOSS naming the field.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace deltafin {

struct HubFile {
  std::string name;  // relative, no part of it ".", ".." or empty
  uint64_t bytes = 0;
  std::string sha256;  // of large files (LFS); empty for others
  std::string etag;    // what the Hub names its content: sha256 or git's id
};

// GET /api/models/REPOSITORY/revision/REVISION: 40 lower-case hex digits.
absl::StatusOr<std::string> ParseCommit(std::string_view json);

// One page of GET /api/models/REPOSITORY/tree/COMMIT?recursive=true; entries
// that are no files are left out.
absl::StatusOr<std::vector<HubFile>> ParseTreePage(std::string_view json);

}  // namespace deltafin
