#include "coordinator/cli/logits_dump.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "common/base/safetensors.h"
#include "tests/testing/temp_dir.h"

namespace deltafin {
namespace {

TEST(LogitsDumpTest, WritesASafetensorsFileOfAllRows) {
  const TempDir folder;
  const std::string path = folder.File("logits.safetensors");
  auto dump = LogitsDump::Create(path, 3);
  ASSERT_TRUE(dump.ok()) << dump.status();
  ASSERT_TRUE(dump->Append(std::vector<float>{1, 2, 3}).ok());
  ASSERT_TRUE(dump->Append(std::vector<float>{4, 5, 6}).ok());
  EXPECT_FALSE(std::filesystem::exists(path)) << "before it is complete";
  ASSERT_TRUE(dump->Commit().ok());

  const auto file = SafetensorsFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  const TensorInfo* logits = (*file)->Find("logits");
  ASSERT_NE(logits, nullptr);
  EXPECT_EQ(logits->dtype, DType::kF32);
  EXPECT_EQ(logits->shape, (std::vector<int64_t>{2, 3}));
  std::vector<float> values(6);
  ASSERT_TRUE((*file)
                  ->Read(*logits, 0,
                         {reinterpret_cast<uint8_t*>(values.data()),
                          values.size() * sizeof(float)})
                  .ok());
  EXPECT_EQ(values, (std::vector<float>{1, 2, 3, 4, 5, 6}));
}

TEST(LogitsDumpTest, HashesTheRowsAndNothingElse) {
  const TempDir folder;
  const std::string path = folder.File("logits.safetensors");
  const std::vector<float> row(300000, 0.5f);  // more than one read
  auto dump = LogitsDump::Create(path, static_cast<int64_t>(row.size()));
  ASSERT_TRUE(dump.ok());
  ASSERT_TRUE(dump->Append(row).ok());
  ASSERT_TRUE(dump->Commit().ok());
  Sha256 hash;
  ASSERT_TRUE(HashDumpedRows(path, hash).ok());
  EXPECT_EQ(hash.FinishHex(),
            Sha256Hex({reinterpret_cast<const uint8_t*>(row.data()),
                       row.size() * sizeof(float)}));
}

TEST(LogitsDumpTest, LeavesNothingWhenDropped) {
  const TempDir folder;
  {
    auto dump = LogitsDump::Create(folder.File("logits.safetensors"), 3);
    ASSERT_TRUE(dump.ok());
    ASSERT_TRUE(dump->Append(std::vector<float>{1, 2, 3}).ok());
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace deltafin
