#include "common/base/safetensors_writer.h"

#include <filesystem>
#include <string>
#include <vector>

#include "common/base/safetensors.h"
#include "gtest/gtest.h"
#include "tests/testing/temp_dir.h"

namespace deltafin {
namespace {

TEST(SafetensorsWriterTest, WritesWhatTheReaderReads) {
  TempDir dir;
  const std::string path = dir.File("x.safetensors");
  auto writer = SafetensorsWriter::Create(
      path,
      {{"a \"quoted\" \\ name", DType::kU16, {2, 2}}, {"b", DType::kU8, {3}}},
      {{"made\nby", "test"}});
  ASSERT_TRUE(writer.ok()) << writer.status();
  EXPECT_EQ(writer->data_bytes(), 11u);
  std::vector<uint8_t> bytes = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  ASSERT_TRUE(writer->Append({bytes.data(), 5}).ok());
  ASSERT_TRUE(writer->Append({bytes.data() + 5, 6}).ok());
  EXPECT_FALSE(std::filesystem::exists(path));
  ASSERT_TRUE(writer->Commit().ok());

  const auto file = SafetensorsFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  const TensorInfo* b = (*file)->Find("b");
  ASSERT_NE(b, nullptr);
  ASSERT_NE((*file)->Find("a \"quoted\" \\ name"), nullptr);
  std::vector<uint8_t> out(3);
  ASSERT_TRUE((*file)->Read(*b, 0, out).ok());
  EXPECT_EQ(out, (std::vector<uint8_t>{9, 10, 11}));
  // Data starts on 8 bytes, as the usual writers do.
  EXPECT_EQ((*file)->Find("a \"quoted\" \\ name")->offset % 8, 0u);
}

TEST(SafetensorsWriterTest, ShowsNoIncompleteFile) {
  TempDir dir;
  {
    auto writer = SafetensorsWriter::Create(dir.File("x.safetensors"),
                                            {{"t", DType::kF32, {2}}});
    ASSERT_TRUE(writer.ok());
    const uint8_t bytes[4] = {};
    ASSERT_TRUE(writer->Append(bytes).ok());
    EXPECT_EQ(writer->Commit().code(), absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(SafetensorsWriterTest, RefusesMoreBytesThanDeclared) {
  TempDir dir;
  auto writer = SafetensorsWriter::Create(dir.File("x.safetensors"),
                                          {{"t", DType::kU8, {2}}});
  ASSERT_TRUE(writer.ok());
  const uint8_t bytes[3] = {};
  EXPECT_EQ(writer->Append(bytes).code(), absl::StatusCode::kOutOfRange);
}

TEST(SafetensorsWriterTest, RefusesTensorsThatCannotBeStored) {
  TempDir dir;
  const std::string path = dir.File("x.safetensors");
  using Tensors = std::vector<SafetensorsWriter::Tensor>;
  for (const Tensors& tensors :
       {Tensors{{"t", DType::kU8, {1}}, {"t", DType::kU8, {1}}},
        Tensors{{"t", DType::kU8, {-1}}},
        Tensors{{"t", DType::kF64, {int64_t{1} << 40, int64_t{1} << 40}}}}) {
    EXPECT_EQ(SafetensorsWriter::Create(path, tensors).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace deltafin
