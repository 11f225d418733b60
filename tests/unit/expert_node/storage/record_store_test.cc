#include "expert_node/storage/record_store.h"

#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <thread>

#include "common/base/direct_reader.h"
#include "expert_node/storage/local_store.h"
#include "expert_node/storage/released_identity.h"
#include "tests/unit/expert_node/storage/record_fixture.h"

namespace deltafin {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr ExpertKey kKey = {2, 3};

class RecordStoreTest : public ::testing::TestWithParam<ExpertShape> {
 protected:
  const DiskFolder folder_;
};

INSTANTIATE_TEST_SUITE_P(Shapes, RecordStoreTest,
                         ::testing::Values(kRaggedShape, kPagedShape,
                                           kWideShape));

TEST_P(RecordStoreTest, GivesEveryRunBackAlsoAfterReopening) {
  const ExpertShape shape = GetParam();
  const int n = shape.num_slices();
  const Slices want = PackedSlices(shape, kKey, {0, n});
  auto store = OpenRecords(folder_.path(), shape);
  ASSERT_TRUE(InstallSlices(*store, kKey, {0, n}, want).ok());
  ASSERT_TRUE(InstallSlices(*store, {3, 7}, {0, n}, want).ok());
  for (int turn = 0; turn < 2; ++turn) {
    for (int first = 0; first < n; ++first) {
      for (int count = 1; first + count <= n; ++count) {
        const SliceRun run = {first, count};
        const ReadResult got = ReadRun(*store, kKey, run);
        ASSERT_TRUE(got.bytes.ok()) << got.bytes.status();
        for (int i = 0; i < count; ++i) {
          EXPECT_TRUE(got.ready[i] == want[first + i]) << first + i;
        }
      }
    }
    EXPECT_TRUE(store->Holds({3, 7}, {0, n}));
    EXPECT_EQ(store->stats().complete_experts, 2u);
    EXPECT_EQ(store->stats().held_bytes, 2 * shape.payload_bytes());
    store.reset();
    store = OpenRecords(folder_.path(), shape);
  }
}

TEST_P(RecordStoreTest, HoldsAnyRunAloneAndFillsTheRestLater) {
  const ExpertShape shape = GetParam();
  const int n = shape.num_slices();
  auto store = OpenRecords(folder_.path(), shape);
  // From the last slice to the first: the pages they share keep both.
  for (int s = n - 1; s >= 0; --s) {
    EXPECT_FALSE(store->Holds(kKey, {s, 1}));
    ASSERT_TRUE(InstallGenerated(*store, kKey, {s, 1}).ok());
    EXPECT_THAT(store->HeldSlices(kKey), ElementsAre(SliceRun{s, n - s}));
  }
  const ReadResult got = ReadRun(*store, kKey, {0, n});
  ASSERT_TRUE(got.bytes.ok()) << got.bytes.status();
  EXPECT_TRUE(got.ready == PackedSlices(shape, kKey, {0, n}));
}

TEST_P(RecordStoreTest, RemovesWhatAProcessKilledInTheMidstLeft) {
  auto store = OpenRecords(folder_.path(), GetParam());
  ASSERT_TRUE(InstallGenerated(*store, kKey, {0, 1}).ok());
  store.reset();
  const std::string index = folder_.File("layer-02.index");
  const std::string abandoned = index + ".tmp-123-0";
  std::filesystem::copy_file(index, abandoned);
  store = OpenRecords(folder_.path(), GetParam());
  EXPECT_FALSE(std::filesystem::exists(abandoned));
  EXPECT_TRUE(store->Holds(kKey, {0, 1}));
}

TEST_P(RecordStoreTest, ReadsNothingOfARunThatIsNotWhollyHeld) {
  auto store = OpenRecords(folder_.path(), GetParam());
  ASSERT_TRUE(InstallGenerated(*store, kKey, {0, 1}).ok());
  const ReadResult got = ReadRun(*store, kKey, {0, 2});
  EXPECT_TRUE(absl::IsNotFound(got.bytes.status())) << got.bytes.status();
  EXPECT_THAT(got.ready, ElementsAre(IsEmpty(), IsEmpty()));
  EXPECT_EQ(store->stats().bytes_read, 0u);
}

TEST_P(RecordStoreTest, RemovesSlicesForGoodAndGivesTheirRoomBack) {
  const ExpertShape shape = GetParam();
  const int n = shape.num_slices();
  auto store = OpenRecords(folder_.path(), shape);
  ASSERT_TRUE(InstallGenerated(*store, kKey, {0, n}).ok());
  struct stat before, after;
  const std::string file = folder_.File("layer-02.experts");
  ASSERT_EQ(stat(file.c_str(), &before), 0);
  ASSERT_TRUE(store->Remove(kKey, {1, n - 1}).ok());
  EXPECT_THAT(store->HeldSlices(kKey), ElementsAre(SliceRun{0, 1}));
  EXPECT_EQ(store->stats().held_bytes, shape.slice_offset(1));
  ASSERT_EQ(stat(file.c_str(), &after), 0);
  EXPECT_LT(after.st_blocks, before.st_blocks);
  store.reset();
  store = OpenRecords(folder_.path(), shape);
  EXPECT_THAT(store->HeldSlices(kKey), ElementsAre(SliceRun{0, 1}));
  const ReadResult got = ReadRun(*store, kKey, {0, 1});
  EXPECT_TRUE(got.ready == PackedSlices(shape, kKey, {0, 1}))
      << got.bytes.status();
}

TEST_P(RecordStoreTest, LeavesNothingInThePageCache) {
  const ExpertShape shape = GetParam();
  auto store = OpenRecords(folder_.path(), shape);
  for (int e = 0; e < 8; ++e) {
    const SliceRun all = {0, shape.num_slices()};
    ASSERT_TRUE(InstallGenerated(*store, {1, e}, all).ok());
    ASSERT_TRUE(ReadRun(*store, {1, e}, all).bytes.ok());
  }
  const std::string path = folder_.File("layer-01.experts");
  if (!(*DirectReader::Open(path))->direct()) {
    GTEST_SKIP() << "the build folder's file system takes no direct reads";
  }
  const size_t size = std::filesystem::file_size(path);
  const FileDescriptor fd = *OpenForReading(path);
  void* const mapped = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  std::vector<unsigned char> pages((size + 4095) / 4096);
  ASSERT_EQ(mincore(mapped, size, pages.data()), 0);
  munmap(mapped, size);
  const auto cached =
      std::count_if(pages.begin(), pages.end(), [](int p) { return p & 1; });
  EXPECT_LT(cached * 100.0, pages.size());
}

TEST(RecordStoreRefusalTest, RefusesAnotherModelWithBothDigests) {
  const DiskFolder folder;
  auto store = OpenRecords(folder.path(), kRaggedShape);
  ASSERT_TRUE(InstallGenerated(*store, kKey, {0, 1}).ok());
  store.reset();
  RecordModel other = RecordModelOf(kRaggedShape);
  other.manifest_digest = std::string(64, 'b');
  const auto refused = RecordStore::Open(folder.path(), other, SmallReserve());
  ASSERT_TRUE(absl::IsFailedPrecondition(refused.status()));
  const std::string message(refused.status().message());
  EXPECT_THAT(message, HasSubstr(folder.File("layer-02.index")));
  EXPECT_THAT(message, HasSubstr(std::string(64, 'a')));
  EXPECT_THAT(message, HasSubstr(std::string(64, 'b')));
  EXPECT_THAT(message, HasSubstr("another folder"));
}

TEST(RecordStoreRefusalTest, RefusesAnotherFormatWithBothVersions) {
  const DiskFolder folder;
  auto store = OpenRecords(folder.path(), kRaggedShape);
  ASSERT_TRUE(InstallGenerated(*store, kKey, {0, 1}).ok());
  store.reset();
  Overwrite(folder.File("layer-02.index"), 8, std::string("\x07\0\0\0", 4));
  const auto refused = RecordStore::Open(
      folder.path(), RecordModelOf(kRaggedShape), SmallReserve());
  ASSERT_TRUE(absl::IsFailedPrecondition(refused.status()));
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("has format 7, this program reads format 1"));
}

TEST(RecordStoreRefusalTest, RefusesASecondProcessAndNamesTheFirst) {
  const DiskFolder folder;
  const auto store = OpenRecords(folder.path(), kRaggedShape);
  const auto second = RecordStore::Open(
      folder.path(), RecordModelOf(kRaggedShape), SmallReserve());
  EXPECT_TRUE(absl::IsUnavailable(second.status())) << second.status();
}

TEST(RecordStoreRefusalTest, RefusesNamesOutsideTheModel) {
  const DiskFolder folder;
  const auto store = OpenRecords(folder.path(), kRaggedShape);
  const Slices slices = PackedSlices(kRaggedShape, kKey, {0, 1});
  for (const auto& [key, run] :
       {std::pair(ExpertKey{0, 0}, SliceRun{0, 1}),  // dense
        std::pair(ExpertKey{4, 0}, SliceRun{0, 1}),
        std::pair(ExpertKey{1, 8}, SliceRun{0, 1}),
        std::pair(ExpertKey{1, -1}, SliceRun{0, 1}),
        std::pair(ExpertKey{1, 0}, SliceRun{3, 1})}) {
    const absl::Status status = InstallSlices(*store, key, run, slices);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_FALSE(store->Holds(key, run));
  }
}

TEST(RecordStoreQuotaTest, StopsAtTheQuotaUntilItIsRaised) {
  const DiskFolder folder;
  RecordStoreOptions options = SmallReserve();
  options.quota_bytes = kRaggedShape.payload_bytes() + 10;
  const auto store = OpenRecords(folder.path(), kRaggedShape, options);
  ASSERT_TRUE(InstallGenerated(*store, kKey, {0, 3}).ok());
  const absl::Status full = InstallGenerated(*store, {1, 0}, {0, 3});
  ASSERT_TRUE(absl::IsResourceExhausted(full)) << full;
  EXPECT_THAT(std::string(full.message()), HasSubstr("quota"));
  EXPECT_EQ(store->stats().held_bytes, kRaggedShape.payload_bytes());
  // What is held already costs nothing.
  EXPECT_TRUE(InstallGenerated(*store, kKey, {0, 3}).ok());
  store->SetQuota(2 * kRaggedShape.payload_bytes());
  EXPECT_TRUE(InstallGenerated(*store, {1, 0}, {0, 3}).ok());
  store->SetQuota(0);
  EXPECT_TRUE(ReadRun(*store, kKey, {0, 3}).bytes.ok());
  EXPECT_FALSE(store->HasRoom(1));
}

TEST(RecordStoreNanoTest,
     GivesTheBytesOfTheReleasedShardsForEveryExpertOfALayer) {
  const std::string model_dir = DELTAFIN_SOURCE_DIR "/deploy/models/k3-nano";
  const ModelSpec spec = *ModelSpec::Load(model_dir);
  const auto released = *LocalStore::Open(model_dir, spec);
  const DiskFolder folder;
  auto opened = RecordStore::Open(folder.path(),
                                  RecordModel::Of(spec, std::string(64, 'c')),
                                  SmallReserve());
  ASSERT_TRUE(opened.ok()) << opened.status();
  RecordStore& store = **opened;
  const SliceRun all = {0, spec.expert_shape().num_slices()};
  for (int layer = spec.first_k_dense_replace; layer < spec.num_hidden_layers;
       layer += 4) {
    for (int expert = 0; expert < spec.num_experts; ++expert) {
      const ReadResult want = ReadRun(*released, {layer, expert}, all);
      ASSERT_TRUE(want.bytes.ok()) << want.bytes.status();
      ASSERT_TRUE(InstallSlices(store, {layer, expert}, all, want.ready).ok());
      const ReadResult got = ReadRun(store, {layer, expert}, all);
      ASSERT_TRUE(got.bytes.ok()) << got.bytes.status();
      ASSERT_TRUE(got.ready == want.ready) << layer << " " << expert;
    }
  }
  EXPECT_EQ(store.stats().corrupt_slices, 0u);
}

TEST(RecordStoreIdentityTest, KeepsTheIdentityOfTheReleasedBytes) {
  const DiskFolder folder;
  const GeneratedExpert expert(kRaggedShape, kKey);
  const std::string identity =
      IdentityOfReleased(kRaggedShape, expert.released());
  const Slices slices = PackedSlices(kRaggedShape, kKey, {0, 3});
  std::vector<uint8_t> record;
  for (const auto& slice : slices) {
    record.insert(record.end(), slice.begin(), slice.end());
  }
  EXPECT_EQ(IdentityOfRecord(kRaggedShape, record), identity);
  auto store = OpenRecords(folder.path(), kRaggedShape);
  ASSERT_TRUE(InstallSlices(*store, kKey, {0, 3}, slices, identity).ok());
  store.reset();
  store = OpenRecords(folder.path(), kRaggedShape);
  EXPECT_EQ(store->Identity(kKey), identity);
  EXPECT_EQ(store->Identity({1, 1}), std::nullopt);
  EXPECT_TRUE(absl::IsInvalidArgument(
      InstallSlices(*store, {1, 1}, {0, 3}, slices, "no digest")));
}

// Every thread sees whole slices or none, whatever the others do.
TEST(RecordStoreThreadsTest, ServesReadersWhileExpertsComeAndGo) {
  const DiskFolder folder;
  const auto store = OpenRecords(folder.path(), kRaggedShape);
  constexpr int kExperts = 3, kTurns = 25;
  Slices want[kExperts];
  for (int e = 0; e < kExperts; ++e) {
    want[e] = PackedSlices(kRaggedShape, {1, e}, {0, 3});
  }
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kTurns; ++i) {
        const ExpertKey key = {1, (i + t) % kExperts};
        const absl::Status in =
            InstallSlices(*store, key, {0, 3}, want[key.expert]);
        EXPECT_TRUE(in.ok()) << in;
        const absl::Status gone = store->Remove(key, {i % 3, 1});
        EXPECT_TRUE(gone.ok()) << gone;
      }
    });
    threads.emplace_back([&, t] {
      for (int i = 0; i < 4 * kTurns; ++i) {
        const ExpertKey key = {1, (i + t) % kExperts};
        const ReadResult got = ReadRun(*store, key, {0, 3});
        if (!got.bytes.ok()) {
          EXPECT_TRUE(absl::IsNotFound(got.bytes.status()))
              << got.bytes.status();
        }
        for (int s = 0; s < 3; ++s) {
          if (got.ready[s].empty()) continue;
          EXPECT_TRUE(got.ready[s] == want[key.expert][s]);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(store->stats().corrupt_slices, 0u);
}

// Whoever has its bytes, and checks them or hands them out, keeps nobody from
// the drive.
TEST(RecordStoreThreadsTest, ReadsForOthersWhileOneHandsItsSlicesOut) {
  const DiskFolder folder;
  RecordStoreOptions options = SmallReserve();
  options.reads_at_once = 1;
  const auto store = OpenRecords(folder.path(), kPagedShape, options);
  for (const ExpertKey key : {ExpertKey{1, 0}, ExpertKey{1, 1}}) {
    ASSERT_TRUE(InstallGenerated(*store, key, {0, 3}).ok());
  }
  std::promise<void> first_is_ready, other_has_read;
  std::future<void> ready = first_is_ready.get_future();
  std::future<void> read = other_has_read.get_future();
  std::vector<AlignedBuffer> buffers;
  std::vector<uint8_t*> out;
  for (int s = 0; s < 3; ++s) {
    buffers.push_back(*AlignedBuffer::Allocate(kPagedShape.slice_offset(s + 1) -
                                               kPagedShape.slice_offset(s)));
    out.push_back(buffers.back().data());
  }
  std::thread holder([&] {
    const auto bytes = store->Read({1, 0}, {0, 3}, out, [&](int slice) {
      if (slice != 0) return;
      first_is_ready.set_value();
      EXPECT_EQ(read.wait_for(std::chrono::minutes(1)),
                std::future_status::ready)
          << "a read waited for the end of another one's check";
    });
    EXPECT_TRUE(bytes.ok()) << bytes.status();
  });
  EXPECT_EQ(ready.wait_for(std::chrono::minutes(1)), std::future_status::ready);
  const ReadResult got = ReadRun(*store, {1, 1}, {0, 3});
  EXPECT_TRUE(got.bytes.ok()) << got.bytes.status();
  other_has_read.set_value();
  holder.join();
  EXPECT_EQ(store->stats().bytes_read, 2 * kPagedShape.payload_bytes());
}

}  // namespace
}  // namespace deltafin
