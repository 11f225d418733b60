#include "common/base/safetensors.h"

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/temp_dir.h"

namespace deltafin {
namespace {

using testing::HasSubstr;

std::string FileWith(uint64_t header_length, const std::string& rest) {
  std::string file(8, '\0');
  std::memcpy(file.data(), &header_length, 8);
  return file + rest;
}

const std::string kHeader =
    R"({"t":{"dtype":"U8","shape":[5],"data_offsets":[0,5]}})";

class SafetensorsFileTest : public testing::Test {
 protected:
  auto Open(const std::string& contents) {
    std::ofstream(path(), std::ios::binary) << contents;
    return SafetensorsFile::Open(path());
  }
  std::string path() const { return dir_.File("shard.safetensors"); }
  void ExpectRefused(const std::string& contents, const char* reason) {
    const auto file = Open(contents);
    EXPECT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(file.status().message()), HasSubstr(reason));
    EXPECT_THAT(std::string(file.status().message()), HasSubstr(path()));
  }

  TempDir dir_;
};

TEST_F(SafetensorsFileTest, ReadsRangesOfATensor) {
  const auto file = Open(FileWith(kHeader.size(), kHeader + "abcde"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->path(), path());
  const TensorInfo* tensor = (*file)->Find("t");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ((*file)->Find("u"), nullptr);
  std::vector<uint8_t> out(3);
  ASSERT_TRUE((*file)->Read(*tensor, 1, out).ok());
  EXPECT_EQ(std::string(out.begin(), out.end()), "bcd");
  EXPECT_EQ((*file)->Read(*tensor, 3, out).code(),
            absl::StatusCode::kOutOfRange);
  EXPECT_EQ((*file)->Read(*tensor, ~uint64_t{0}, out).code(),
            absl::StatusCode::kOutOfRange);
}

TEST_F(SafetensorsFileTest, RefusesLengthBombs) {
  ExpectRefused(FileWith(~uint64_t{0}, kHeader), "claims 18446744073709551615");
  ExpectRefused(FileWith(uint64_t{1} << 40, kHeader), "claims 1099511627776");
  ExpectRefused(FileWith(kHeader.size() + 1, kHeader), "claims");
}

TEST_F(SafetensorsFileTest, RefusesTruncatedFiles) {
  ExpectRefused("", "has 0 bytes");
  ExpectRefused("1234567", "has 7 bytes");
  ExpectRefused(FileWith(kHeader.size(), kHeader + "abcd"), "do not lie");
  ExpectRefused(FileWith(kHeader.size(), kHeader.substr(0, 20)), "claims");
}

TEST_F(SafetensorsFileTest, RefusesTrailingData) {
  ExpectRefused(FileWith(kHeader.size(), kHeader + "abcdef"), "1 bytes follow");
}

TEST_F(SafetensorsFileTest, NoticesAFileThatShrankLater) {
  const auto file = Open(FileWith(kHeader.size(), kHeader + "abcde"));
  ASSERT_TRUE(file.ok());
  std::ofstream(path(), std::ios::binary | std::ios::trunc) << "x";
  std::vector<uint8_t> out(5);
  EXPECT_EQ((*file)->Read(*(*file)->Find("t"), 0, out).code(),
            absl::StatusCode::kDataLoss);
}

TEST(SafetensorsOpenTest, NamesAMissingFile) {
  const auto file = SafetensorsFile::Open("/nowhere/x.safetensors");
  EXPECT_EQ(file.status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace deltafin
