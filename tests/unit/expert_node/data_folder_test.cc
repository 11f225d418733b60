#include "expert_node/data_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "common/base/file_io.h"
#include "common/base/random_id.h"
#include "tests/testing/temp_dir.h"

namespace deltafin {
namespace {

using ::testing::HasSubstr;

std::string MessageOf(const absl::Status& status) {
  return std::string(status.message());
}

TEST(DataFolderTest, KeepsIdAndEpochBetweenStarts) {
  const TempDir dir;
  const std::string folder = dir.File("a/b");
  std::string id;
  {
    const auto first = DataFolder::Open(folder);
    ASSERT_TRUE(first.ok()) << first.status();
    id = (*first)->node_id();
    EXPECT_TRUE(IsRandomId(id));
    EXPECT_EQ((*first)->highest_epoch(), 0u);
    ASSERT_TRUE((*first)->KeepEpoch(17).ok());
    ASSERT_TRUE((*first)->KeepEpoch(16).ok());
  }
  const auto second = DataFolder::Open(folder);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ((*second)->node_id(), id);
  EXPECT_EQ((*second)->highest_epoch(), 17u);
}

TEST(DataFolderTest, AnEpochThatWouldBeRefusedForGoodIsNotKept) {
  const TempDir dir;
  const auto folder = DataFolder::Open(dir.path());
  ASSERT_TRUE(folder.ok()) << folder.status();
  ASSERT_TRUE((*folder)->KeepEpoch(17).ok());
  EXPECT_FALSE((*folder)->KeepEpoch(UINT64_MAX).ok());
  EXPECT_EQ((*folder)->highest_epoch(), 17u);
  EXPECT_EQ(*ReadFile(dir.File("epoch"), 100), "17\n");
}

TEST(DataFolderTest, AnEmptiedFolderIsAnotherNodeAtTheSameHome) {
  const TempDir dir;
  const std::string folder = dir.File("data");
  std::string id, home;
  {
    const auto first = DataFolder::Open(folder);
    ASSERT_TRUE(first.ok()) << first.status();
    id = (*first)->node_id();
    home = (*first)->home();
  }
  std::filesystem::remove_all(folder);
  const auto second = DataFolder::Open(folder);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_NE((*second)->node_id(), id);
  EXPECT_EQ((*second)->home(), home);
  EXPECT_EQ(home.size(), 64u);
  const auto other = DataFolder::Open(dir.File("other"));
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_NE((*other)->home(), home);
}

TEST(DataFolderTest, AFolderInUseNamesItsHolder) {
  const TempDir dir;
  const auto first = DataFolder::Open(dir.path());
  ASSERT_TRUE(first.ok()) << first.status();
  const absl::Status status = DataFolder::Open(dir.path()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(MessageOf(status),
              HasSubstr("deltafin-node, process " + std::to_string(getpid())));
}

TEST(DataFolderTest, RefusesAnotherFormatAndDamage) {
  const TempDir dir;
  ASSERT_TRUE(
      WriteFileAtomically(dir.File("format"), "deltafin-node-data 9\n").ok());
  absl::Status status = DataFolder::Open(dir.path()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(status), HasSubstr("deltafin-node-data 9"));
  ASSERT_TRUE(
      WriteFileAtomically(dir.File("format"), "deltafin-node-data 1\n").ok());
  ASSERT_TRUE(WriteFileAtomically(dir.File("node_id"), "me\n").ok());
  status = DataFolder::Open(dir.path()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(MessageOf(status), HasSubstr("node_id"));
  std::filesystem::remove(dir.File("node_id"));
  ASSERT_TRUE(WriteFileAtomically(dir.File("epoch"), "12x\n").ok());
  status = DataFolder::Open(dir.path()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(MessageOf(status), HasSubstr("epoch"));
}

TEST(DataFolderTest, LeavesAFolderOfSomethingElseAsItIs) {
  const TempDir dir;
  ASSERT_TRUE(WriteFileAtomically(dir.File("config.json"), "{}\n").ok());
  const absl::Status status = DataFolder::Open(dir.path()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(status), HasSubstr("it holds config.json"));
  EXPECT_FALSE(std::filesystem::exists(dir.File("format")));
  EXPECT_FALSE(std::filesystem::exists(dir.File("lock")));
}

TEST(DataFolderTest, AStartThatWasInterruptedIsGoneOnWith) {
  const TempDir dir;
  ASSERT_TRUE(WriteFileAtomically(dir.File("lock"), "somebody\n").ok());
  ASSERT_TRUE(WriteFileAtomically(dir.File("format.tmp-1-0"), "delta").ok());
  const auto folder = DataFolder::Open(dir.path());
  ASSERT_TRUE(folder.ok()) << folder.status();
  EXPECT_EQ(*ReadFile(dir.File("format"), 100), "deltafin-node-data 1\n");
}

}  // namespace
}  // namespace deltafin
