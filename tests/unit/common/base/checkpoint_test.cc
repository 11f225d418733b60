#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "common/base/safetensors.h"
#include "common/base/safetensors_writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/temp_dir.h"

namespace deltafin {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<int64_t> kShape = {3};

class CheckpointTest : public testing::Test {
 protected:
  // A shard with one U8 tensor [3] of each name, filled with `value`.
  void WriteShard(const std::string& file,
                  const std::vector<std::string>& names, uint8_t value) {
    std::vector<SafetensorsWriter::Tensor> tensors;
    for (const std::string& name : names) {
      tensors.push_back({name, DType::kU8, kShape});
    }
    auto writer = SafetensorsWriter::Create(dir_.File(file), tensors);
    ASSERT_TRUE(writer.ok()) << writer.status();
    const std::vector<uint8_t> bytes(writer->data_bytes(), value);
    ASSERT_TRUE(writer->Append(bytes).ok());
    ASSERT_TRUE(writer->Commit().ok());
  }
  void WriteIndex(const std::string& map) {
    std::ofstream(dir_.File("model.safetensors.index.json"))
        << R"({"metadata":{"total_size":1},"weight_map":)" << map << "}";
  }
  void ExpectOpenFails(absl::StatusCode code,
                       const std::vector<std::string>& parts) {
    const auto checkpoint = Checkpoint::Open(dir_.path());
    ASSERT_EQ(checkpoint.status().code(), code) << checkpoint.status();
    for (const std::string& part : parts) {
      EXPECT_THAT(std::string(checkpoint.status().message()), HasSubstr(part));
    }
  }

  TempDir dir_;
};

TEST_F(CheckpointTest, ReadsTensorsFromTheirShards) {
  WriteShard("a.safetensors", {"language_model.x"}, 1);
  WriteShard("b.safetensors", {"language_model.y"}, 2);
  WriteIndex(R"({"language_model.y":"b.safetensors",
                 "language_model.x":"a.safetensors"})");
  const auto checkpoint = Checkpoint::Open(dir_.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_THAT((*checkpoint)->shards(),
              ElementsAre("a.safetensors", "b.safetensors"));
  EXPECT_THAT((*checkpoint)->tensors(),
              ElementsAre("language_model.x", "language_model.y"));
  std::vector<uint8_t> out(3);
  ASSERT_TRUE((*checkpoint)
                  ->ReadTensor("language_model.y", DType::kU8, kShape, out)
                  .ok());
  EXPECT_THAT(out, ElementsAre(2, 2, 2));
}

TEST_F(CheckpointTest, SkipsVisionTensorsAndTheirShards) {
  WriteShard("a.safetensors", {"language_model.x", "mm_projector.p"}, 1);
  WriteIndex(R"({"language_model.x":"a.safetensors",
                 "mm_projector.p":"a.safetensors",
                 "vision_tower.v":"not_downloaded.safetensors"})");
  const auto checkpoint = Checkpoint::Open(dir_.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_FALSE((*checkpoint)->Has("mm_projector.p"));
  EXPECT_TRUE((*checkpoint)->Has("language_model.x"));
  EXPECT_THAT((*checkpoint)->shards(), ElementsAre("a.safetensors"));
}

TEST_F(CheckpointTest, ReadsASingleFileWithoutAnIndex) {
  WriteShard("model.safetensors", {"language_model.x", "vision_tower.v"}, 9);
  const auto checkpoint = Checkpoint::Open(dir_.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_THAT((*checkpoint)->tensors(), ElementsAre("language_model.x"));
  std::vector<uint8_t> out(3);
  EXPECT_TRUE((*checkpoint)
                  ->ReadTensor("language_model.x", DType::kU8, kShape, out)
                  .ok());
}

TEST_F(CheckpointTest, NamesAMissingIndex) {
  ExpectOpenFails(absl::StatusCode::kNotFound,
                  {dir_.File("model.safetensors.index.json")});
}

TEST_F(CheckpointTest, SaysWhatIsWrongWithASingleFile) {
  std::ofstream(dir_.File("model.safetensors")) << "short";
  ExpectOpenFails(absl::StatusCode::kInvalidArgument,
                  {dir_.File("model.safetensors"), "has 5 bytes"});
}

TEST_F(CheckpointTest, NamesAMissingShardAndATensorInIt) {
  WriteShard("a.safetensors", {"language_model.x"}, 1);
  WriteIndex(R"({"language_model.x":"a.safetensors",
                 "language_model.y":"gone.safetensors"})");
  ExpectOpenFails(absl::StatusCode::kNotFound,
                  {dir_.File("gone.safetensors"), "language_model.y"});
}

TEST_F(CheckpointTest, RefusesUnknownPrefixes) {
  WriteIndex(R"({"other_model.x":"a.safetensors"})");
  ExpectOpenFails(absl::StatusCode::kInvalidArgument,
                  {"model.safetensors.index.json", "other_model.x"});
}

TEST_F(CheckpointTest, RefusesDuplicatesInTheIndex) {
  WriteShard("a.safetensors", {"language_model.x"}, 1);
  WriteIndex(R"({"language_model.x":"a.safetensors",
                 "language_model.x":"a.safetensors"})");
  ExpectOpenFails(absl::StatusCode::kInvalidArgument,
                  {"language_model.x appears twice"});
}

TEST_F(CheckpointTest, RefusesShardsOutsideTheFolder) {
  for (const char* shard :
       {"\"../a.safetensors\"", "\"/etc/a.safetensors\"", "\"\"",
        "\".safetensors\"", "\"a\\u0000.safetensors\"", "\"passwd\"", "7",
        "null", "[]"}) {
    WriteIndex(std::string(R"({"language_model.x":)") + shard + "}");
    ExpectOpenFails(absl::StatusCode::kInvalidArgument,
                    {"tensor language_model.x"});
  }
}

TEST_F(CheckpointTest, RefusesAnIndexThatIsNoJson) {
  for (const char* map : {"{", "[]", "{\"\xff\":\"a.safetensors\"}"}) {
    WriteIndex(map);
    ExpectOpenFails(absl::StatusCode::kInvalidArgument,
                    {"model.safetensors.index.json", "weight_map"});
  }
}

TEST_F(CheckpointTest, NamesExpectedAndFoundShapes) {
  WriteShard("a.safetensors", {"language_model.x"}, 1);
  WriteIndex(R"({"language_model.x":"a.safetensors",
                 "language_model.ghost":"a.safetensors"})");
  const auto checkpoint = Checkpoint::Open(dir_.path());
  ASSERT_TRUE(checkpoint.ok());
  const std::vector<int64_t> other = {3, 1};
  const auto shape =
      (*checkpoint)->Find("language_model.x", DType::kU8, other).status();
  EXPECT_EQ(shape.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(shape.message()),
              HasSubstr("a.safetensors: tensor language_model.x is U8 [3], but "
                        "config.json asks for U8 [3, 1]"));
  const auto dtype =
      (*checkpoint)->Find("language_model.x", DType::kI8, kShape).status();
  EXPECT_EQ(dtype.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ((*checkpoint)
                ->Find("language_model.none", DType::kU8, kShape)
                .status()
                .code(),
            absl::StatusCode::kNotFound);
  const auto ghost =
      (*checkpoint)->Find("language_model.ghost", DType::kU8, kShape).status();
  EXPECT_EQ(ghost.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(ghost.message()), HasSubstr("the index says so"));
}

TEST_F(CheckpointTest, OpensShardsOnceFromManyThreads) {
  WriteShard("a.safetensors", {"language_model.x"}, 1);
  WriteIndex(R"({"language_model.x":"a.safetensors"})");
  const auto checkpoint = Checkpoint::Open(dir_.path());
  ASSERT_TRUE(checkpoint.ok());
  std::vector<const SafetensorsFile*> files(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < files.size(); ++t) {
    threads.emplace_back([&, t] {
      const auto location =
          (*checkpoint)->Find("language_model.x", DType::kU8, kShape);
      if (location.ok()) files[t] = location->file;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_NE(files[0], nullptr);
  EXPECT_EQ(std::vector(4, files[0]), files);
}

}  // namespace
}  // namespace deltafin
