#include "coordinator/cli/row_file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/testing/temp_dir.h"

namespace deltafin {
namespace {

TEST(RowFileTest, GivesRowsBackInOrderAndHasNoName) {
  const TempDir folder;
  auto rows = RowFile::Create(folder.path(), 2, 2);
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_TRUE(rows->Append(std::vector<float>{1, 2}).ok());
  ASSERT_TRUE(rows->Append(std::vector<float>{3, 4}).ok());
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  const auto first = rows->Next();
  ASSERT_TRUE(first.ok());
  EXPECT_EQ((*first)[1], 2);
  const auto second = rows->Next();
  ASSERT_TRUE(second.ok());
  EXPECT_EQ((*second)[0], 3);
  EXPECT_FALSE(rows->Next().ok());
}

TEST(RowFileTest, RefusesWhatTheDiskCannotHold) {
  const TempDir folder;
  const auto rows = RowFile::Create(folder.path(), int64_t{1} << 40, 1 << 20);
  EXPECT_EQ(rows.status().code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace deltafin
