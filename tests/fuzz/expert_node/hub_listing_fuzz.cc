// Input: a page of the Hub's list of files, or a revision. No accepted name may
// leave the folder it is put in; sizes and digests are in range.

#include <string>
#include <string_view>

#include "common/base/check.h"
#include "expert_node/storage/hub_listing.h"

namespace {

void CheckName(std::string_view name) {
  CHECK(!name.empty() && name.front() != '/' && name.back() != '/');
  CHECK(name.find('\0') == name.npos && name.find('\\') == name.npos);
  const std::string padded = "/" + std::string(name) + "/";
  for (const char* part : {"//", "/./", "/../"}) {
    CHECK(padded.find(part) == padded.npos);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  if (const auto files = deltafin::ParseTreePage(text); files.ok()) {
    for (const deltafin::HubFile& file : *files) {
      CheckName(file.name);
      CHECK(file.bytes <= uint64_t{1} << 50);
      CHECK(file.etag.size() == 40 || file.etag == file.sha256);
      CHECK(file.sha256.empty() || file.sha256.size() == 64);
    }
  }
  if (const auto commit = deltafin::ParseCommit(text); commit.ok()) {
    CHECK(commit->size() == 40);
  }
  return 0;
}
