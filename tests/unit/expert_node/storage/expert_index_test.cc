#include "expert_node/storage/expert_index.h"

#include <gmock/gmock.h>

#include "tests/unit/expert_node/storage/record_fixture.h"

namespace deltafin {
namespace {

using ::testing::ElementsAre;

class ExpertIndexTest : public ::testing::Test {
 protected:
  void SetUp() override {
    store_ = OpenRecords(folder_.path(), kRaggedShape);
    ASSERT_TRUE(InstallGenerated(*store_, {1, 0}, {0, 3}).ok());
    ASSERT_TRUE(InstallGenerated(*store_, {2, 3}, {1, 1}).ok());
    Reopen();
  }
  void Reopen() {
    index_.reset();
    auto index = ExpertIndex::Open(folder_.path());
    ASSERT_TRUE(index.ok()) << index.status();
    index_ = *std::move(index);
  }
  ExpertIndex::Row RowOf(ExpertKey key) {
    const auto row = index_->Find(key);
    EXPECT_TRUE(row.ok()) << row.status();
    return row.ok() ? row->value_or(ExpertIndex::Row{}) : ExpertIndex::Row{};
  }

  const DiskFolder folder_;
  std::unique_ptr<RecordStore> store_;
  std::unique_ptr<ExpertIndex> index_;
};

TEST_F(ExpertIndexTest, SaysWhatTheStoreHoldsOnceItIsBuilt) {
  EXPECT_EQ(*index_->Find({1, 0}), std::nullopt);
  ASSERT_TRUE(index_->Rebuild(*store_).ok());
  EXPECT_THAT(RowOf({1, 0}).held, ElementsAre(SliceRun{0, 3}));
  EXPECT_THAT(RowOf({2, 3}).held, ElementsAre(SliceRun{1, 1}));
  ASSERT_TRUE(store_->Remove({1, 0}, {1, 1}).ok());
  ASSERT_TRUE(index_->Rebuild(*store_).ok());
  EXPECT_THAT(RowOf({1, 0}).held, ElementsAre(SliceRun{0, 1}, SliceRun{2, 1}));
}

TEST_F(ExpertIndexTest, AddsReadsOnceAndKeepsThemOverRestarts) {
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(ReadRun(*store_, {1, 0}, {0, 3}).bytes.ok());
  }
  ASSERT_TRUE(index_->Update(*store_).ok());
  ASSERT_TRUE(index_->Update(*store_).ok());
  EXPECT_EQ(RowOf({1, 0}).heat, 3u);
  store_.reset();
  store_ = OpenRecords(folder_.path(), kRaggedShape);
  Reopen();
  ASSERT_TRUE(ReadRun(*store_, {1, 0}, {0, 1}).bytes.ok());
  ASSERT_TRUE(index_->Update(*store_).ok());
  EXPECT_EQ(RowOf({1, 0}).heat, 4u);
}

TEST_F(ExpertIndexTest, KeepsTheQuota) {
  EXPECT_EQ(*index_->Quota(), std::nullopt);
  ASSERT_TRUE(index_->SetQuota(12345).ok());
  Reopen();
  EXPECT_EQ(*index_->Quota(), 12345u);
}

TEST_F(ExpertIndexTest, BeginsAnewWhereItsFilesAreCut) {
  ASSERT_TRUE(index_->Rebuild(*store_).ok());
  index_.reset();
  for (const auto& file :
       std::filesystem::directory_iterator(folder_.File("ledger"))) {
    if (file.file_size() > 1) {
      std::filesystem::resize_file(file.path(), file.file_size() / 2);
    }
  }
  Reopen();
  ASSERT_TRUE(index_->Rebuild(*store_).ok());
  EXPECT_THAT(RowOf({2, 3}).held, ElementsAre(SliceRun{1, 1}));
  EXPECT_TRUE(ReadRun(*store_, {1, 0}, {0, 3}).bytes.ok());
}

TEST_F(ExpertIndexTest, BeginsAnewWhereItWasDeleted) {
  index_.reset();
  std::filesystem::remove_all(folder_.File("ledger"));
  Reopen();
  ASSERT_TRUE(index_->Rebuild(*store_).ok());
  EXPECT_THAT(RowOf({1, 0}).held, ElementsAre(SliceRun{0, 3}));
}

TEST_F(ExpertIndexTest, IsRefusedWhereItCannotBeWrittenAndTheStoreServesOn) {
  const auto index = ExpertIndex::Open("/proc/self");
  EXPECT_FALSE(index.ok());
  EXPECT_TRUE(ReadRun(*store_, {1, 0}, {0, 3}).bytes.ok());
}

}  // namespace
}  // namespace deltafin
