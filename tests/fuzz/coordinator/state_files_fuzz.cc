// Input: a byte that says which file of a coordinator's state folder, then what
// is in it: `epoch` or `drained`. A file that is not as it was written is
// refused with its path; what is read can be gone on with and read again.

#include <string>

#include "common/base/check.h"
#include "common/base/file_io.h"
#include "common/base/random_id.h"
#include "coordinator/cluster/drain_file.h"
#include "coordinator/cluster/epoch_file.h"
#include "tests/fuzz/silence.h"
#include "tests/testing/temp_dir.h"

using deltafin::DrainFile;
using deltafin::EpochFile;

namespace {

void CheckRefusal(const absl::Status& status, const std::string& path) {
  CHECK(absl::IsDataLoss(status) || absl::IsInvalidArgument(status) ||
        absl::IsResourceExhausted(status));
  CHECK(std::string(status.message()).find(path) != std::string::npos);
}

void TryEpoch(const deltafin::TempDir& dir, const std::string& text) {
  CHECK_OK(deltafin::WriteFileAtomically(dir.File("epoch"), text));
  uint64_t used = 0;
  std::string id;
  {
    auto file = EpochFile::Open(dir.path(), absl::FromUnixSeconds(100));
    if (!file.ok()) return CheckRefusal(file.status(), dir.File("epoch"));
    const uint64_t before = file->current();
    used = file->Next();
    id = file->coordinator_id();
    CHECK(used > before);
    CHECK(deltafin::IsRandomId(id));
  }
  auto again = EpochFile::Open(dir.path(), absl::FromUnixSeconds(100));
  // The last numbers are used up: it says so rather than begin anew.
  if (!again.ok()) return CheckRefusal(again.status(), dir.File("epoch"));
  CHECK(again->coordinator_id() == id);
  CHECK(again->Next() > used);
}

void TryDrained(const deltafin::TempDir& dir, const std::string& text) {
  CHECK_OK(deltafin::WriteFileAtomically(dir.File("drained"), text));
  auto file = DrainFile::Open(dir.path());
  if (!file.ok()) return CheckRefusal(file.status(), dir.File("drained"));
  CHECK(file->ids().size() <= DrainFile::kMaxIds);
  const std::set<std::string> ids = file->ids();
  for (const std::string& id : ids) {
    CHECK(!id.empty() && id.find_first_of(" \n\x1b") == std::string::npos);
  }
  CHECK_OK(file->Save(ids));
  const auto again = DrainFile::Open(dir.path());
  CHECK_OK(again.status());
  CHECK(again->ids() == ids);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static const bool silent = deltafin::Silence();
  if (size == 0 || !silent) return 0;
  const deltafin::TempDir dir;
  const std::string text(reinterpret_cast<const char*>(bytes) + 1, size - 1);
  (bytes[0] % 2 == 0 ? TryEpoch : TryDrained)(dir, text);
  return 0;
}
