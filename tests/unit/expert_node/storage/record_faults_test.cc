#include <gmock/gmock.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "expert_node/storage/fetching_store.h"
#include "expert_node/storage/record_index_format.h"
#include "tests/unit/expert_node/storage/played_drive.h"
#include "tests/unit/expert_node/storage/record_fixture.h"

namespace deltafin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr ExpertKey kKey = {2, 3};

uint64_t OffsetOf(const ExpertShape& shape, int expert, int slice) {
  return shape.stride_bytes() * expert + shape.slice_offset(slice);
}

class RecordFaultsTest : public ::testing::TestWithParam<ExpertShape> {
 protected:
  void SetUp() override {
    store_ = OpenRecords(folder_.path(), shape_);
    ASSERT_TRUE(InstallGenerated(*store_, kKey, {0, num_slices_}).ok());
  }
  void TearDown() override { PlayedDrive::bad_offset = -1; }

  std::string data_file() const { return folder_.File("layer-02.experts"); }

  // The read fails, names the place, and the slice does not come back.
  void ExpectDropped(int slice, const std::string& why) {
    const ReadResult got = ReadRun(*store_, kKey, {0, num_slices_});
    ASSERT_TRUE(absl::IsDataLoss(got.bytes.status())) << got.bytes.status();
    EXPECT_THAT(std::string(got.bytes.status().message()),
                AllOf(HasSubstr("layer 2 expert 3"), HasSubstr(data_file()),
                      HasSubstr("offset"), HasSubstr(why)));
    EXPECT_THAT(got.ready[slice], IsEmpty());
    EXPECT_FALSE(store_->Holds(kKey, {slice, 1}));
    EXPECT_GE(store_->stats().corrupt_slices, 1u);
    store_.reset();
    store_ = OpenRecords(folder_.path(), shape_);
    EXPECT_FALSE(store_->Holds(kKey, {slice, 1}));
  }

  const ExpertShape shape_ = GetParam();
  const int num_slices_ = shape_.num_slices();
  const DiskFolder folder_;
  std::unique_ptr<RecordStore> store_;
};

INSTANTIATE_TEST_SUITE_P(Shapes, RecordFaultsTest,
                         ::testing::Values(kRaggedShape, kPagedShape,
                                           kWideShape));

TEST_P(RecordFaultsTest, DropsASliceWithOneFlippedBitBeforeItIsReady) {
  Overwrite(data_file(), OffsetOf(shape_, 3, 1) + 1000, "\x01");
  ExpectDropped(1, "differ from their digest");
}

TEST_P(RecordFaultsTest, DropsARecordOfRandomBytesBeforeItIsReady) {
  std::string noise(shape_.payload_bytes(), '\0');
  uint64_t state = 1;
  for (char& byte : noise) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<char>(state >> 56);
  }
  Overwrite(data_file(), OffsetOf(shape_, 3, 0), noise);
  ExpectDropped(0, "differ from their digest");
}

TEST_P(RecordFaultsTest, DropsWhatTheDriveCannotRead) {
  PlayedDrive::bad_offset = static_cast<int64_t>(OffsetOf(shape_, 3, 1)) + 5000;
  ExpectDropped(1, "Input/output error");
  EXPECT_EQ(store_->stats().held_slices, uint64_t(num_slices_) - 1);
}

TEST_P(RecordFaultsTest, DropsWhatLiesBehindTheEndOfItsFile) {
  const uint64_t end = (OffsetOf(shape_, 3, 1) + 4096) / 4096 * 4096;
  std::filesystem::resize_file(data_file(), end);
  ExpectDropped(1, "the file ends at");
}

TEST_P(RecordFaultsTest, CountsAllAsMissingWhenTheDataFileIsGone) {
  store_.reset();
  std::filesystem::remove(data_file());
  store_ = OpenRecords(folder_.path(), shape_);
  EXPECT_THAT(store_->HeldSlices(kKey), IsEmpty());
  EXPECT_EQ(store_->stats().held_bytes, 0u);
  EXPECT_EQ(store_->stats().held_experts, 0u);
  ASSERT_TRUE(InstallGenerated(*store_, kKey, {0, num_slices_}).ok());
  EXPECT_TRUE(ReadRun(*store_, kKey, {0, num_slices_}).bytes.ok());
}

TEST_P(RecordFaultsTest, RefetchesADamagedSliceWithoutTheReaderNoticing) {
  Overwrite(data_file(), OffsetOf(shape_, 3, 1) + 64, "damage");
  auto lower = std::make_unique<GeneratedStore>(shape_);
  GeneratedStore& source = *lower;
  FetchingStore fetching(*store_, std::move(lower), {});
  const SliceRun all = {0, num_slices_};
  ReadResult got = ReadRun(fetching, kKey, all);
  ASSERT_TRUE(got.bytes.ok()) << got.bytes.status();
  EXPECT_TRUE(got.ready == PackedSlices(shape_, kKey, all));
  EXPECT_EQ(source.num_slices_read(), 1);
  EXPECT_EQ(fetching.stats().slices_refetched, 1u);
  fetching.WaitForInstalls();
  got = ReadRun(fetching, kKey, all);
  EXPECT_TRUE(got.ready == PackedSlices(shape_, kKey, all));
  EXPECT_EQ(source.num_reads(), 1);
}

TEST_P(RecordFaultsTest, RefetchesWhatTheDriveCannotRead) {
  PlayedDrive::bad_offset = static_cast<int64_t>(OffsetOf(shape_, 3, 1)) + 5000;
  FetchingStore fetching(*store_, std::make_unique<GeneratedStore>(shape_), {});
  const SliceRun all = {0, num_slices_};
  const ReadResult got = ReadRun(fetching, kKey, all);
  ASSERT_TRUE(got.bytes.ok()) << got.bytes.status();
  EXPECT_TRUE(got.ready == PackedSlices(shape_, kKey, all));
}

TEST(RecordNanTest, StoresNoSliceWithANanScale) {
  const DiskFolder folder;
  const auto store = OpenRecords(folder.path(), kRaggedShape);
  Slices slices = PackedSlices(kRaggedShape, kKey, {0, 3});
  slices[1][0] = 255;  // a tile begins with its scales
  const absl::Status status = InstallSlices(*store, kKey, {0, 3}, slices);
  ASSERT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("scale byte 255 (NaN) at byte 0 of slice 1"));
  EXPECT_THAT(store->HeldSlices(kKey), IsEmpty());
}

// Only bytes that are wrong but match their digest can get there: whoever
// wrote them did not look.
TEST(RecordNanTest, DropsASliceWhoseNanScaleMatchesItsDigest) {
  const DiskFolder folder;
  auto store = OpenRecords(folder.path(), kRaggedShape);
  ASSERT_TRUE(InstallGenerated(*store, kKey, {0, 1}).ok());
  store.reset();
  std::vector<uint8_t> slice = PackedSlices(kRaggedShape, kKey, {0, 1})[0];
  slice[0] = 255;
  Overwrite(folder.File("layer-02.experts"), OffsetOf(kRaggedShape, 3, 0),
            "\xff");
  RecordEntry entry;
  entry.expert = kKey.expert;
  entry.run = {0, 1};
  entry.digests = {Xxh3Digest(slice)};
  const RecordIndexHeader header = {2, kRaggedShape, 8, std::string(64, 'a')};
  Overwrite(folder.File("layer-02.index"), kRecordHeaderBytes,
            EncodeRecordEntry(header, entry));
  store = OpenRecords(folder.path(), kRaggedShape);
  const ReadResult got = ReadRun(*store, kKey, {0, 1});
  EXPECT_TRUE(absl::IsDataLoss(got.bytes.status()));
  EXPECT_THAT(std::string(got.bytes.status().message()), HasSubstr("NaN"));
  EXPECT_THAT(got.ready[0], IsEmpty());
}

// A file system of 8 MB that ends with the test's process.
bool MountSmallDisk(const std::string& folder) {
  return unshare(CLONE_NEWNS) == 0 &&
         mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("none", folder.c_str(), "tmpfs", 0, "size=8m") == 0;
}

TEST(RecordFullDiskTest, ServesOnWhenTheDriveIsFullAndHoldsNothingPartial) {
  const DiskFolder folder;
  if (!MountSmallDisk(folder.path())) {
    GTEST_SKIP() << "needs root to mount a small disk: " << strerror(errno);
  }
  auto store = OpenRecords(folder.path(), kWideShape);  // 2.9 MB each
  {
    FetchingStore fetching(*store, std::make_unique<GeneratedStore>(kWideShape),
                           {});
    for (int e = 0; e < 8; ++e) {
      const ReadResult got = ReadRun(fetching, {1, e}, {0, 2});
      ASSERT_TRUE(got.bytes.ok()) << got.bytes.status();
      EXPECT_TRUE(got.ready == PackedSlices(kWideShape, {1, e}, {0, 2}));
      fetching.WaitForInstalls();
    }
    EXPECT_EQ(fetching.stats().runs_installed, 2u);
    EXPECT_EQ(fetching.stats().runs_not_installed, 6u);
  }
  EXPECT_EQ(store->stats().complete_experts, 2u);
  store.reset();
  store = OpenRecords(folder.path(), kWideShape);
  EXPECT_EQ(store->stats().held_bytes, 2 * kWideShape.payload_bytes());
  EXPECT_TRUE(ReadRun(*store, {1, 1}, {0, 2}).bytes.ok());
  store.reset();
  EXPECT_EQ(umount(folder.path().c_str()), 0);
}

// The room check passed, the drive is full all the same: at the record, half
// written, and at the index.
TEST(RecordFullDiskTest, HoldsNothingOfAnInstallThatTheDriveRefused) {
  const DiskFolder folder;
  auto store = OpenRecords(folder.path(), kWideShape);
  ASSERT_TRUE(InstallGenerated(*store, {1, 0}, {0, 2}).ok());
  for (const int writes : {0, 1}) {
    PlayedDrive::writes_until_full = writes;
    const absl::Status full = InstallGenerated(*store, {1, 1}, {0, 2});
    PlayedDrive::writes_until_full = -1;
    ASSERT_TRUE(absl::IsResourceExhausted(full)) << full;
    EXPECT_THAT(store->HeldSlices({1, 1}), IsEmpty());
    EXPECT_EQ(store->stats().held_bytes, kWideShape.payload_bytes());
    store.reset();
    store = OpenRecords(folder.path(), kWideShape);
    EXPECT_THAT(store->HeldSlices({1, 1}), IsEmpty());
    EXPECT_TRUE(ReadRun(*store, {1, 0}, {0, 2}).bytes.ok());
  }
  ASSERT_TRUE(InstallGenerated(*store, {1, 1}, {0, 2}).ok());
  EXPECT_TRUE(ReadRun(*store, {1, 1}, {0, 2}).bytes.ok());
}

}  // namespace
}  // namespace deltafin
