#include "expert_node/storage/local_store.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "common/base/tensor_names.h"
#include "kernels/expert_tiles.h"
#include "tests/testing/synthetic_config.h"
#include "tests/testing/synthetic_model.h"
#include "tests/testing/temp_dir.h"

namespace deltafin {
namespace {

constexpr ExpertKey kKey = {2, 3};

// Two full slices and a short one.
ModelSpec ThreeSliceSpec() {
  ModelSpec spec = TinySpec(4, 8);
  spec.moe_intermediate_size = 544;
  return spec;
}

class LocalStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const absl::Status made = MakeSyntheticModel({spec_, 1, ""}, model_dir());
    ASSERT_TRUE(made.ok()) << made;
  }

  std::string model_dir() const { return dir_.File("model"); }

  std::unique_ptr<LocalStore> OpenStore() {
    auto store = LocalStore::Open(model_dir(), spec_);
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }

  // Slices of `run` as the store gives them.
  absl::StatusOr<std::vector<std::vector<uint8_t>>> ReadRun(LocalStore& store,
                                                            SliceRun run) {
    std::vector<std::vector<uint8_t>> slices;
    std::vector<uint8_t*> out;
    std::vector<int> ready;
    for (int s = run.first; s < run.first + run.count; ++s) {
      slices.emplace_back(shape_.slice_offset(s + 1) - shape_.slice_offset(s));
    }
    for (auto& slice : slices) out.push_back(slice.data());
    const auto bytes =
        store.Read(kKey, run, out, [&](int slice) { ready.push_back(slice); });
    if (!bytes.ok()) return bytes.status();
    EXPECT_EQ(ready.size(), slices.size());
    bytes_read_ = *bytes;
    return slices;
  }

  // The whole record, from tensors read the plain way.
  std::vector<uint8_t> PackedRecord() {
    auto checkpoint = Checkpoint::Open(model_dir());
    EXPECT_TRUE(checkpoint.ok());
    std::vector<std::vector<uint8_t>> tensors;
    for (const TensorSpec& tensor : ExpertTensors(spec_, kKey)) {
      tensors.emplace_back(tensor.bytes());
      EXPECT_TRUE((*checkpoint)
                      ->ReadTensor(tensor.name, tensor.dtype, tensor.shape,
                                   tensors.back())
                      .ok());
    }
    const ReleasedExpert released = {tensors[0].data(), tensors[1].data(),
                                     tensors[4].data(), tensors[5].data(),
                                     tensors[2].data(), tensors[3].data()};
    std::vector<uint8_t> record(shape_.payload_bytes());
    PackSlices(shape_, released, {0, shape_.num_slices()}, record.data());
    return record;
  }

  // Where byte `index` of a tensor of the expert lies: shard and offset.
  std::pair<std::string, uint64_t> Place(int tensor_index, uint64_t index) {
    auto checkpoint = Checkpoint::Open(model_dir());
    const TensorSpec tensor = ExpertTensors(spec_, kKey)[tensor_index];
    const auto found =
        (*checkpoint)->Find(tensor.name, tensor.dtype, tensor.shape);
    EXPECT_TRUE(found.ok());
    return {found->file->path(), found->info->offset + index};
  }

  void Overwrite(int tensor_index, uint64_t index, char byte) {
    const auto [path, offset] = Place(tensor_index, index);
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(byte);
  }

  const TempDir dir_;
  const ModelSpec spec_ = ThreeSliceSpec();
  const ExpertShape shape_ = spec_.expert_shape();
  uint64_t bytes_read_ = 0;
};

TEST_F(LocalStoreTest, GivesEveryRunTheBytesOfThePackedRecord) {
  const auto store = OpenStore();
  const std::vector<uint8_t> record = PackedRecord();
  for (int first = 0; first < shape_.num_slices(); ++first) {
    for (int count = 1; first + count <= shape_.num_slices(); ++count) {
      const auto slices = ReadRun(*store, {first, count});
      ASSERT_TRUE(slices.ok()) << slices.status();
      for (int i = 0; i < count; ++i) {
        const uint8_t* want = &record[shape_.slice_offset(first + i)];
        const auto& got = (*slices)[i];
        EXPECT_EQ(std::memcmp(got.data(), want, got.size()), 0)
            << "slice " << first + i << " of run " << first << "+" << count;
      }
    }
  }
}

TEST_F(LocalStoreTest, ReadsOfAPartialRunGateAndUpRowsAndAllOfDown) {
  const auto store = OpenStore();
  ASSERT_TRUE(ReadRun(*store, {0, 3}).ok());
  EXPECT_EQ(bytes_read_, shape_.payload_bytes());
  ASSERT_TRUE(ReadRun(*store, {1, 1}).ok());
  EXPECT_EQ(bytes_read_,
            shape_.payload_bytes() / 3 + 2 * shape_.slice_matrix_bytes(1));
}

struct Planted {
  const char* text;
  int tensor;
  uint64_t row, group;
};

TEST_F(LocalStoreTest, RefusesANanScaleNamingLayerExpertMatrixRowAndGroup) {
  const int latent_groups = shape_.latent_size / 32;
  const int inner_groups = shape_.intermediate_size / 32;
  const Planted cases[] = {
      {"w1.weight_scale has the byte 255 (NaN) at row 300, group 0", 1, 300, 0},
      {"w2.weight_scale has the byte 255 (NaN) at row 5, group 9", 3, 5, 9},
      {"w3.weight_scale has the byte 255 (NaN) at row 511, group 0", 5, 511, 0},
  };
  for (const Planted& planted : cases) {
    const uint64_t width = planted.tensor == 3 ? inner_groups : latent_groups;
    const uint64_t index = planted.row * width + planted.group;
    Overwrite(planted.tensor, index, '\xff');
    const auto store = OpenStore();
    for (const SliceRun run : {SliceRun{0, 3}, SliceRun{1, 1}}) {
      const absl::Status status = ReadRun(*store, run).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
      const std::string message(status.message());
      EXPECT_NE(message.find("layer 2 expert 3"), std::string::npos) << message;
      EXPECT_NE(message.find(planted.text), std::string::npos) << message;
    }
    EXPECT_TRUE(ReadRun(*store, {2, 1}).ok());  // holds none of them
    Overwrite(planted.tensor, index, '\x78');
  }
}

TEST_F(LocalStoreTest, RefusesAShardThatShrinksWhileTheNodeRuns) {
  const auto store = OpenStore();
  const auto [path, offset] = Place(0, 0);
  std::filesystem::resize_file(path, offset + 10);
  const absl::Status status = ReadRun(*store, {0, 3}).status();
  EXPECT_FALSE(status.ok());
  EXPECT_NE(std::string(status.message()).find("layer 2 expert 3"),
            std::string::npos)
      << status;
  EXPECT_NE(std::string(status.message()).find(path), std::string::npos)
      << status;
}

TEST_F(LocalStoreTest, RefusesADirectoryWithATruncatedShardAtOnce) {
  const auto [path, offset] = Place(0, 0);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  const auto store = LocalStore::Open(model_dir(), spec_);
  EXPECT_FALSE(store.ok());
  EXPECT_NE(std::string(store.status().message())
                .find(std::filesystem::path(path).filename().string()),
            std::string::npos)
      << store.status();
}

TEST_F(LocalStoreTest, RefusesADirectoryOfAnotherModelsShapes) {
  ModelSpec other = spec_;
  other.moe_intermediate_size = 512;
  EXPECT_FALSE(LocalStore::Open(model_dir(), other).ok());
}

}  // namespace
}  // namespace deltafin
