#include <gmock/gmock.h>

#include <filesystem>

#include "common/base/file_io.h"
#include "expert_node/storage/record_index_format.h"
#include "tests/unit/expert_node/storage/record_fixture.h"

namespace deltafin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const RecordIndexHeader kHeader = {5, kRaggedShape, 8, std::string(64, 'a')};

std::span<const uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

RecordEntry Stored(int expert, SliceRun run) {
  RecordEntry entry;
  entry.expert = expert;
  entry.run = run;
  for (int i = 0; i < run.count; ++i) {
    entry.digests.push_back({uint64_t(expert), uint64_t(i)});
  }
  return entry;
}

TEST(RecordIndexFormatTest, GivesBackWhatWasEncoded) {
  RecordEntry with_identity = Stored(3, {0, 3});
  with_identity.identity = Sha256Bytes{1, 2, 3};
  const RecordEntry removed = {
      RecordEntry::Kind::kRemoved, 3, {1, 2}, std::nullopt, {}};
  std::string bytes = EncodeRecordHeader(kHeader);
  for (const RecordEntry& entry : {with_identity, Stored(7, {2, 1}), removed}) {
    const std::string encoded = EncodeRecordEntry(kHeader, entry);
    EXPECT_EQ(encoded.size(), RecordEntryBytes(kRaggedShape));
    bytes += encoded;
  }
  const auto parsed = ParseRecordIndex(Bytes(bytes));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->header, kHeader);
  EXPECT_THAT(parsed->entries,
              ElementsAre(with_identity, Stored(7, {2, 1}), removed));
  EXPECT_THAT(parsed->damaged, IsEmpty());
  EXPECT_EQ(parsed->good_bytes, bytes.size());
}

TEST(RecordIndexFormatTest, TakesFullSizeEntriesOf256Bytes) {
  EXPECT_EQ(RecordEntryBytes({3584, 3072}), 256u);
}

TEST(RecordIndexFormatTest, NamesADamagedEntryAndKeepsTheOthers) {
  std::string bytes = EncodeRecordHeader(kHeader);
  for (int e = 0; e < 3; ++e) {
    bytes += EncodeRecordEntry(kHeader, Stored(e, {0, 3}));
  }
  const size_t entry_bytes = RecordEntryBytes(kRaggedShape);
  for (size_t i = 0; i < entry_bytes; ++i) {
    std::string damaged = bytes;
    damaged[kRecordHeaderBytes + entry_bytes + i] ^= 0x20;
    const auto parsed = ParseRecordIndex(Bytes(damaged));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_THAT(parsed->entries,
                ElementsAre(Stored(0, {0, 3}), Stored(2, {0, 3})));
    EXPECT_THAT(parsed->damaged, ElementsAre(kRecordHeaderBytes + entry_bytes));
  }
}

TEST(RecordIndexFormatTest, RefusesADamagedHeaderAtEveryByte) {
  const std::string good = EncodeRecordHeader(kHeader);
  for (size_t i = 0; i < kRecordHeaderBytes; ++i) {
    std::string damaged = good;
    damaged[i] ^= 1;
    EXPECT_FALSE(ParseRecordIndex(Bytes(damaged)).ok()) << i;
    EXPECT_TRUE(
        absl::IsDataLoss(ParseRecordIndex(Bytes(good.substr(0, i))).status()));
  }
}

TEST(RecordIndexFormatTest, TellsHexFromOtherText) {
  const std::string hex(64, 'f');
  ASSERT_TRUE(ParseSha256Hex(hex).has_value());
  EXPECT_EQ(Sha256HexOf(*ParseSha256Hex(hex)), hex);
  EXPECT_FALSE(ParseSha256Hex(hex.substr(1)).has_value());
  EXPECT_FALSE(ParseSha256Hex(std::string(64, 'F')).has_value());
}

// A process killed while it appended: the entry is there up to any byte.
TEST(RecordIndexTornTest, ForgetsAnEntryThatIsCutAtAnyByteAndGoesOn) {
  const DiskFolder folder;
  const std::string path = folder.File("layer-01.index");
  auto store = OpenRecords(folder.path(), kRaggedShape);
  ASSERT_TRUE(InstallGenerated(*store, {1, 0}, {0, 3}).ok());
  ASSERT_TRUE(InstallGenerated(*store, {1, 1}, {0, 3}).ok());
  store.reset();
  const std::string whole = *ReadFile(path, 1 << 20);
  const size_t begin = whole.size() - RecordEntryBytes(kRaggedShape);
  for (size_t end = begin; end < whole.size(); ++end) {
    ASSERT_TRUE(WriteFileAtomically(path, whole.substr(0, end)).ok());
    store = OpenRecords(folder.path(), kRaggedShape);
    EXPECT_TRUE(store->Holds({1, 0}, {0, 3}));
    EXPECT_THAT(store->HeldSlices({1, 1}), IsEmpty()) << end;
    store.reset();
  }
  store = OpenRecords(folder.path(), kRaggedShape);
  ASSERT_TRUE(InstallGenerated(*store, {1, 2}, {0, 3}).ok());
  store.reset();
  store = OpenRecords(folder.path(), kRaggedShape);
  EXPECT_EQ(store->stats().complete_experts, 2u);
  EXPECT_EQ(store->stats().damaged_entries, 0u);
  EXPECT_TRUE(ReadRun(*store, {1, 2}, {0, 3}).bytes.ok());
}

// Blocks of zeros where the last entry should be: its size reached the drive,
// its bytes did not.
TEST(RecordIndexTornTest, TakesALastEntryOfZerosForATornOne) {
  const DiskFolder folder;
  auto store = OpenRecords(folder.path(), kRaggedShape);
  ASSERT_TRUE(InstallGenerated(*store, {1, 0}, {0, 3}).ok());
  store.reset();
  const std::string path = folder.File("layer-01.index");
  const std::string whole = *ReadFile(path, 1 << 20);
  ASSERT_TRUE(WriteFileAtomically(
                  path, whole + std::string(RecordEntryBytes(kRaggedShape), 0))
                  .ok());
  store = OpenRecords(folder.path(), kRaggedShape);
  EXPECT_EQ(store->stats().damaged_entries, 0u);
  EXPECT_TRUE(store->Holds({1, 0}, {0, 3}));
}

TEST(RecordIndexDamageTest, CountsWhatADamagedEntryNamedAsMissing) {
  const DiskFolder folder;
  auto store = OpenRecords(folder.path(), kRaggedShape);
  for (int e = 0; e < 3; ++e) {
    ASSERT_TRUE(InstallGenerated(*store, {1, e}, {0, 3}).ok());
  }
  store.reset();
  Overwrite(folder.File("layer-01.index"),
            kRecordHeaderBytes + RecordEntryBytes(kRaggedShape) + 20, "xyz");
  store = OpenRecords(folder.path(), kRaggedShape);
  EXPECT_EQ(store->stats().damaged_entries, 1u);
  EXPECT_TRUE(store->Holds({1, 0}, {0, 3}));
  EXPECT_FALSE(store->Holds({1, 1}, {0, 1}));
  EXPECT_TRUE(store->Holds({1, 2}, {0, 3}));
  store.reset();
  // It was rewritten without the damage.
  store = OpenRecords(folder.path(), kRaggedShape);
  EXPECT_EQ(store->stats().damaged_entries, 0u);
  EXPECT_EQ(store->stats().complete_experts, 2u);
}

TEST(RecordIndexDamageTest, RewritesAnIndexOfMostlyDeadEntries) {
  const DiskFolder folder;
  auto store = OpenRecords(folder.path(), kRaggedShape);
  ASSERT_TRUE(InstallGenerated(*store, {1, 0}, {0, 2}).ok());
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(InstallGenerated(*store, {1, 1}, {1, 1}).ok());
    ASSERT_TRUE(store->Remove({1, 1}, {1, 1}).ok());
  }
  store.reset();
  store = OpenRecords(folder.path(), kRaggedShape);
  EXPECT_EQ(std::filesystem::file_size(folder.File("layer-01.index")),
            kRecordHeaderBytes + RecordEntryBytes(kRaggedShape));
  EXPECT_TRUE(ReadRun(*store, {1, 0}, {0, 2}).bytes.ok());
}

}  // namespace
}  // namespace deltafin
