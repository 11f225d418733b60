// Input: the bytes of a layer-NN.index file. What is read must be within the
// header's bounds, and written again it must read the same.

#include "common/base/check.h"
#include "expert_node/storage/record_index_format.h"

using deltafin::RecordEntry;
using deltafin::RecordIndexContents;

namespace {

void CheckEntry(const RecordIndexContents& contents, const RecordEntry& entry) {
  const int num_slices = contents.header.shape.num_slices();
  CHECK(entry.expert >= 0 && entry.expert < contents.header.num_experts);
  CHECK(entry.run.first >= 0 && entry.run.count >= 1);
  CHECK(entry.run.first + entry.run.count <= num_slices);
  const bool stored = entry.kind == RecordEntry::Kind::kStored;
  CHECK(stored || entry.kind == RecordEntry::Kind::kRemoved);
  CHECK(entry.digests.size() ==
        (stored ? static_cast<size_t>(entry.run.count) : 0));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const auto contents = deltafin::ParseRecordIndex({bytes, size});
  if (!contents.ok()) {
    CHECK(absl::IsDataLoss(contents.status()) ||
          absl::IsFailedPrecondition(contents.status()));
    CHECK(!contents.status().message().empty());
    return 0;
  }
  CHECK(contents->good_bytes <= size);
  std::string again = deltafin::EncodeRecordHeader(contents->header);
  for (const RecordEntry& entry : contents->entries) {
    CheckEntry(*contents, entry);
    again += deltafin::EncodeRecordEntry(contents->header, entry);
  }
  const auto second = deltafin::ParseRecordIndex(
      {reinterpret_cast<const uint8_t*>(again.data()), again.size()});
  CHECK(second.ok());
  CHECK(second->header == contents->header);
  CHECK(second->entries == contents->entries);
  CHECK(second->damaged.empty());
  return 0;
}
