#include "expert_node/storage/expert_index.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "tests/unit/expert_node/storage/record_fixture.h"

namespace deltafin {
namespace {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

const std::string kModel(64, 'a');
const std::string kOtherModel(64, 'b');
constexpr ExpertUse kFirst{{1, 0}, 3.5, 0b101};
constexpr ExpertUse kSecond{{2, 3}, 4, 0b10};

class ExpertIndexTest : public ::testing::Test {
 protected:
  void SetUp() override { Reopen(); }

  void Reopen(const std::string& model = kModel) {
    index_.reset();
    auto index = ExpertIndex::Open(folder_.path(), model);
    ASSERT_TRUE(index.ok()) << index.status();
    index_ = *std::move(index);
  }
  // A quota and two heats, in a ledger that is closed.
  void Fill() {
    ASSERT_TRUE(index_->SetQuota(12345).ok());
    ASSERT_TRUE(index_->AddHeat({4.25, {kFirst, kSecond}}).ok());
    index_.reset();
  }
  std::vector<std::filesystem::path> Files(const std::string& prefix) {
    std::vector<std::filesystem::path> files;
    for (const auto& file :
         std::filesystem::directory_iterator(folder_.File("ledger"))) {
      if (file.path().filename().string().starts_with(prefix)) {
        files.push_back(file.path());
      }
    }
    return files;
  }

  const DiskFolder folder_;
  std::unique_ptr<ExpertIndex> index_;
};

TEST_F(ExpertIndexTest, IsEmptyAtFirst) {
  EXPECT_EQ(index_->found().quota_bytes, std::nullopt);
  EXPECT_EQ(index_->found().heat.now, 0);
  EXPECT_THAT(index_->found().heat.uses, IsEmpty());
  EXPECT_THAT(index_->found().held, IsEmpty());
}

TEST_F(ExpertIndexTest, KeepsHeatAndQuotaOverRestarts) {
  Fill();
  Reopen();
  EXPECT_EQ(index_->found().quota_bytes, 12345u);
  EXPECT_EQ(index_->found().heat.now, 4.25);
  EXPECT_THAT(index_->found().heat.uses, UnorderedElementsAre(kFirst, kSecond));
  ASSERT_TRUE(index_->SetQuota(std::nullopt).ok());
  Reopen();
  EXPECT_EQ(index_->found().quota_bytes, std::nullopt);
}

TEST_F(ExpertIndexTest, APageReplacesWhatItNamesAndLeavesTheRest) {
  ASSERT_TRUE(index_->AddHeat({4.25, {kFirst, kSecond}}).ok());
  const ExpertUse later{{1, 0}, 7.125, 0b1};
  ASSERT_TRUE(index_->AddHeat({8, {later}}).ok());
  Reopen();
  EXPECT_EQ(index_->found().heat.now, 8);
  EXPECT_THAT(index_->found().heat.uses, UnorderedElementsAre(later, kSecond));
}

TEST_F(ExpertIndexTest, CopiesWhatTheRecordsHold) {
  const auto store = OpenRecords(folder_.path(), kRaggedShape);
  ASSERT_TRUE(InstallGenerated(*store, {1, 0}, {0, 3}).ok());
  const std::string identity(64, '7');
  ASSERT_TRUE(InstallSlices(*store, {2, 3}, {1, 1},
                            PackedSlices(kRaggedShape, {2, 3}, {1, 1}),
                            identity)
                  .ok());
  ASSERT_TRUE(index_->CopyHeld(*store).ok());
  ASSERT_TRUE(store->Remove({1, 0}, {1, 1}).ok());
  ASSERT_TRUE(index_->CopyHeld(*store).ok());
  Reopen();
  using Held = LedgerContents::Held;
  EXPECT_EQ(index_->found().held,
            (std::map<ExpertKey, Held>{{{1, 0}, {0b101, ""}},
                                       {{2, 3}, {0b10, identity}}}));
  ASSERT_TRUE(store->Remove({1, 0}, {0, 3}).ok());
  ASSERT_TRUE(index_->CopyHeld(*store).ok());
  Reopen();
  EXPECT_EQ(index_->found().held.size(), 1u);
}

TEST_F(ExpertIndexTest, AnotherModelBeginsWithTheQuotaAlone) {
  const auto store = OpenRecords(folder_.path(), kRaggedShape);
  ASSERT_TRUE(InstallGenerated(*store, {1, 0}, {0, 3}).ok());
  ASSERT_TRUE(index_->CopyHeld(*store).ok());
  Fill();
  Reopen(kOtherModel);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(index_->found().quota_bytes, 12345u);
    EXPECT_THAT(index_->found().heat.uses, IsEmpty());
    EXPECT_THAT(index_->found().held, IsEmpty());
    EXPECT_EQ(index_->found().manifest_digest, kOtherModel);
    Reopen(kOtherModel);
  }
}

TEST_F(ExpertIndexTest, IsReadWhileItIsOpen) {
  EXPECT_TRUE(
      absl::IsNotFound(ExpertIndex::Read(folder_.File("nothing")).status()));
  ASSERT_TRUE(index_->SetQuota(7).ok());
  ASSERT_TRUE(index_->AddHeat({4.25, {kFirst}}).ok());
  const auto read = ExpertIndex::Read(folder_.path());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->quota_bytes, 7u);
  EXPECT_THAT(read->heat.uses, UnorderedElementsAre(kFirst));
  ASSERT_TRUE(index_->SetQuota(8).ok());  // reading took nothing away
}

TEST_F(ExpertIndexTest, IsRefusedWhileSomebodyHasItAndLeftAlone) {
  ASSERT_TRUE(index_->SetQuota(7).ok());
  const auto second = ExpertIndex::Open(folder_.path(), kModel);
  EXPECT_TRUE(absl::IsUnavailable(second.status())) << second.status();
  Reopen();
  EXPECT_EQ(index_->found().quota_bytes, 7u);
}

TEST_F(ExpertIndexTest, RebuildingKeepsHeatAndQuotaAndTakesTheRestFromRecords) {
  const auto store = OpenRecords(folder_.path(), kRaggedShape);
  ASSERT_TRUE(InstallGenerated(*store, {2, 5}, {0, 1}).ok());
  Fill();
  auto index = ExpertIndex::Rebuild(folder_.path(), kModel, store.get());
  ASSERT_TRUE(index.ok()) << index.status();
  const LedgerContents& found = (*index)->found();
  EXPECT_EQ(found.quota_bytes, 12345u);
  EXPECT_THAT(found.heat.uses, UnorderedElementsAre(kFirst, kSecond));
  EXPECT_EQ(found.held.at({2, 5}).slices, 1u);
}

TEST_F(ExpertIndexTest, RebuildingMendsWhatCannotBeRead) {
  const auto store = OpenRecords(folder_.path(), kRaggedShape);
  ASSERT_TRUE(InstallGenerated(*store, {2, 5}, {0, 1}).ok());
  Fill();
  for (const auto& file : Files("CURRENT")) {
    std::ofstream(file) << "nonsense";
  }
  auto index = ExpertIndex::Rebuild(folder_.path(), kModel, store.get());
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_EQ((*index)->found().quota_bytes, std::nullopt);
  EXPECT_EQ((*index)->found().held.at({2, 5}).slices, 1u);
}

TEST_F(ExpertIndexTest, BeginsAnewWhereAllItsFilesAreCut) {
  Fill();
  for (const auto& file : Files("")) {
    const auto size = std::filesystem::file_size(file);
    if (size > 1) std::filesystem::resize_file(file, size / 2);
  }
  Reopen();
  EXPECT_THAT(index_->found().heat.uses, IsEmpty());
  ASSERT_TRUE(index_->SetQuota(5).ok());
  Reopen();
  EXPECT_EQ(index_->found().quota_bytes, 5u);
}

TEST_F(ExpertIndexTest, SurvivesTheLossOfEachOfItsFiles) {
  Fill();
  for (const char* prefix : {"CURRENT", "MANIFEST", "OPTIONS", "0"}) {
    for (const auto& file : Files(prefix)) std::filesystem::remove(file);
    Reopen();
    ASSERT_TRUE(index_->SetQuota(5).ok()) << prefix;
    Reopen();
    EXPECT_EQ(index_->found().quota_bytes, 5u) << prefix;
  }
}

TEST_F(ExpertIndexTest, BeginsAnewWhereItWasDeleted) {
  Fill();
  std::filesystem::remove_all(folder_.File("ledger"));
  Reopen();
  EXPECT_EQ(index_->found().quota_bytes, std::nullopt);
}

TEST_F(ExpertIndexTest, BeginsAnewAfterHeatThatCannotBe) {
  ASSERT_TRUE(index_->AddHeat({4, {{{1, 1}, 1e9, 1}}}).ok());
  Reopen();
  EXPECT_THAT(index_->found().heat.uses, IsEmpty());
}

TEST_F(ExpertIndexTest, IsRefusedWhereItCannotBeWritten) {
  EXPECT_FALSE(ExpertIndex::Open("/proc/self", kModel).ok());
}

// The highest number that a file of the ledger has: it grows with every flush
// and every compaction.
int HighestFile(const std::string& folder) {
  int highest = 0;
  std::error_code error;
  for (const auto& file :
       std::filesystem::directory_iterator(folder + "/ledger", error)) {
    highest = std::max(highest, std::atoi(file.path().stem().c_str()));
  }
  return highest;
}

// The writer's pages name all experts with one heat, so that a page that
// arrived in part would show.
TEST_F(ExpertIndexTest, HasWholePagesAfterKillsWhileItWritesAndCompacts) {
  HeatPage first{9, {}};  // the writer may be killed before its own first one
  for (int e = 0; e < 20'000; ++e) {
    first.uses.push_back({{1 + e / 1000, e % 1000}, first.now, 1});
  }
  ASSERT_TRUE(index_->AddHeat(first).ok());
  index_.reset();
  for (int kill_number = 0; kill_number < 4; ++kill_number) {
    const int wanted = HighestFile(folder_.path()) + 4 + kill_number;
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      execl(DELTAFIN_LEDGER_WRITER, "ledger_writer", folder_.path().c_str(),
            nullptr);
      _exit(127);
    }
    int status = 0;
    while (HighestFile(folder_.path()) < wanted &&
           waitpid(child, &status, WNOHANG) == 0) {
      usleep(1000);
    }
    usleep(1777 * kill_number);
    kill(child, SIGKILL);
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);
    Reopen();
    const HeatPage& heat = index_->found().heat;
    ASSERT_EQ(heat.uses.size(), 20'000u);
    for (const ExpertUse& use : heat.uses) ASSERT_EQ(use.heat, heat.now);
    index_.reset();
  }
}

}  // namespace
}  // namespace deltafin
