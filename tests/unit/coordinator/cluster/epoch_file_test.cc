#include "coordinator/cluster/epoch_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "common/base/file_io.h"
#include "tests/testing/temp_dir.h"

namespace deltafin {
namespace {

using ::testing::HasSubstr;

constexpr absl::Time kNow = absl::FromUnixSeconds(1000);

TEST(EpochFileTest, BeginsAtTheTimeOfDayWithoutAFolder) {
  auto file = EpochFile::Open("", kNow);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->Next(), 1001u);
  EXPECT_EQ(file->Next(), 1002u);
}

TEST(EpochFileTest, EpochsAfterARestartAreHigherThanAnyBefore) {
  const TempDir dir;
  const std::string folder = dir.File("state");
  std::string id;
  uint64_t last = 0;
  {
    auto file = EpochFile::Open(folder, kNow);
    ASSERT_TRUE(file.ok()) << file.status();
    id = file->coordinator_id();
    for (int i = 0; i < 2500; ++i) last = file->Next();
    EXPECT_EQ(last, 3500u);
  }
  // The clock went back meanwhile.
  auto file = EpochFile::Open(folder, absl::FromUnixSeconds(1));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->coordinator_id(), id);
  EXPECT_GT(file->Next(), last);
}

TEST(EpochFileTest, TheBoundIsOnDiskBeforeAnEpochIsUsed) {
  const TempDir dir;
  auto file = EpochFile::Open(dir.path(), kNow);
  ASSERT_TRUE(file.ok());
  file->RaiseAbove(1'000'000);
  const uint64_t used = file->Next();
  EXPECT_EQ(used, 1'000'001u);
  const auto text = ReadFile(dir.File("epoch"), 1000);
  ASSERT_TRUE(text.ok());
  const std::string bound = text->substr(text->find("epochs_below ") + 13);
  EXPECT_GT(std::stoull(bound), used);
}

TEST(EpochFileTest, NodesLiftWhatALostFileForgot) {
  auto file = EpochFile::Open("", kNow);
  file->RaiseAbove(77);  // lower: nothing
  EXPECT_EQ(file->Next(), 1001u);
  file->RaiseAbove(5000);
  EXPECT_EQ(file->Next(), 5001u);
}

TEST(EpochFileTest, AFolderInUseNamesItsHolder) {
  const TempDir dir;
  const auto first = EpochFile::Open(dir.path(), kNow);
  ASSERT_TRUE(first.ok());
  const absl::Status status = EpochFile::Open(dir.path(), kNow).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("deltafin, process " + std::to_string(getpid())));
}

TEST(EpochFileTest, LeavesTheFoldersOfModelsAndNodesAsTheyAre) {
  for (const char* const name : {"config.json", "format"}) {
    const TempDir dir;
    ASSERT_TRUE(WriteFileAtomically(dir.File(name), "{}").ok());
    const absl::Status status = EpochFile::Open(dir.path(), kNow).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(name));
    EXPECT_FALSE(ReadFile(dir.File("epoch"), 100).ok());
    EXPECT_FALSE(ReadFile(dir.File("lock"), 100).ok());
  }
}

TEST(EpochFileTest, RefusesDamageAndOtherFormats) {
  const TempDir dir;
  const auto open_with = [&](const std::string& text) {
    EXPECT_TRUE(WriteFileAtomically(dir.File("epoch"), text).ok());
    return EpochFile::Open(dir.path(), kNow).status();
  };
  EXPECT_EQ(open_with("").code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(open_with("some words\n").code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(open_with("deltafin-coordinator 1\nid 12\n").code(),
            absl::StatusCode::kDataLoss);
  const absl::Status other = open_with("deltafin-coordinator 2\nwhatever\n");
  EXPECT_EQ(other.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(other.message()),
              HasSubstr("deltafin-coordinator 2"));
}

TEST(EpochFileTest, ABoundThatLeavesNoNumbersIsDamage) {
  const TempDir dir;
  const auto open_with = [&](const std::string& bound) {
    const std::string id(32, 'a');
    EXPECT_TRUE(WriteFileAtomically(dir.File("epoch"),
                                    "deltafin-coordinator 1\nid " + id +
                                        "\nepochs_below " + bound + "\n")
                    .ok());
    return EpochFile::Open(dir.path(), kNow).status();
  };
  EXPECT_TRUE(absl::IsDataLoss(open_with("18446744073709551615")));
  EXPECT_TRUE(absl::IsDataLoss(open_with("-1")));
  EXPECT_TRUE(open_with("4611686018427387904").ok());  // as nodes may report
}

}  // namespace
}  // namespace deltafin
