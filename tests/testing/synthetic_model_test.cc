#include "tests/testing/synthetic_model.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "common/base/manifest.h"
#include "common/base/safetensors.h"
#include "common/base/tensor_names.h"
#include "gtest/gtest.h"
#include "tests/testing/synthetic_config.h"
#include "tests/testing/synthetic_values.h"
#include "tests/testing/temp_dir.h"

namespace deltafin {
namespace {

std::vector<uint8_t> BytesOf(const ModelSpec& spec, const TensorSpec& tensor,
                             uint64_t seed) {
  std::vector<uint8_t> bytes;
  const absl::Status status = StreamSyntheticTensor(
      spec, tensor, seed, [&bytes](std::span<const uint8_t> piece) {
        bytes.insert(bytes.end(), piece.begin(), piece.end());
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(bytes.size(), tensor.bytes());
  return bytes;
}

std::vector<float> Bf16Values(const std::vector<uint8_t>& bytes) {
  std::vector<float> values(bytes.size() / 2);
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t half = 0;
    std::memcpy(&half, bytes.data() + 2 * i, 2);
    const uint32_t bits = uint32_t{half} << 16;
    std::memcpy(&values[i], &bits, 4);
  }
  return values;
}

struct Moments {
  double mean = 0;
  double deviation = 0;
};
Moments MomentsOf(const std::vector<float>& values) {
  double sum = 0;
  double squares = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
  }
  const double mean = sum / values.size();
  return {mean, std::sqrt(squares / values.size() - mean * mean)};
}

TEST(SyntheticModelTest, IsAValidCheckpoint) {
  TempDir dir;
  SyntheticModelOptions options;
  options.spec = TinySpec(5, 6);
  ASSERT_TRUE(MakeSyntheticModel(options, dir.path()).ok());
  const auto spec = ModelSpec::Load(dir.path());
  ASSERT_TRUE(spec.ok()) << spec.status();
  const auto checkpoint = Checkpoint::Open(dir.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ((*checkpoint)->shards().size(), 6u);
  const absl::Status status = ValidateCheckpoint(*spec, **checkpoint);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(std::filesystem::exists(dir.File("tiktoken.model")));
}

TEST(SyntheticModelTest, IsAFunctionOfTheSeed) {
  TempDir dir;
  SyntheticModelOptions options;
  options.spec = TinySpec(2, 4);
  const auto digest = [&](const char* name, uint64_t seed) {
    options.seed = seed;
    EXPECT_TRUE(MakeSyntheticModel(options, dir.File(name)).ok());
    const auto manifest = ManifestOfDirectory(dir.File(name), "", {});
    EXPECT_TRUE(manifest.ok()) << manifest.status();
    return manifest.ok() ? manifest->Digest() : "";
  };
  const std::string first = digest("a", 7);
  EXPECT_EQ(digest("b", 7), first);
  EXPECT_NE(digest("c", 8), first);
  // Pinned: the same bytes on every machine.
  EXPECT_EQ(first,
            "d571f7828ae269612644cbc1330902b0487515a4342ebd4cc3cd9c21242c6c2a");
}

TEST(SyntheticModelTest, LaysAnExpertOutAsReleased) {
  TempDir dir;
  SyntheticModelOptions options;
  options.spec = TinySpec(2, 12);
  ASSERT_TRUE(MakeSyntheticModel(options, dir.path()).ok());
  const auto checkpoint = Checkpoint::Open(dir.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  uint64_t next = 0;
  // Experts follow each other in the order of their numbers as strings.
  for (const int expert : {0, 1, 10, 11, 2}) {
    for (const TensorSpec& tensor : ExpertTensors(options.spec, {1, expert})) {
      const auto location =
          (*checkpoint)->Find(tensor.name, tensor.dtype, tensor.shape);
      ASSERT_TRUE(location.ok()) << location.status();
      if (next != 0) {
        EXPECT_EQ(location->info->offset, next) << tensor.name;
      }
      next = location->info->offset + location->info->bytes;
    }
  }
}

TEST(SyntheticModelTest, NeedsATokenizerThatFits) {
  TempDir dir;
  SyntheticModelOptions options;
  options.spec = TinySpec(2, 4);
  options.spec.vocab_size = 1000;
  EXPECT_EQ(MakeSyntheticModel(options, dir.File("m")).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(SyntheticValuesTest, KeepLinearOutputsNearOne) {
  const ModelSpec spec = FullWidthSpec(4, 16);
  const TensorSpec tensor =
      LayerTensor(spec, 1, "block_sparse_moe.gate.weight");  // [16, 7168]
  const Moments moments = MomentsOf(Bf16Values(BytesOf(spec, tensor, 3)));
  // 114,688 draws: the mean's error is 1/339 of the deviation.
  const double expected = 1 / std::sqrt(7168.0);
  EXPECT_NEAR(moments.mean, 0, 5 * expected / 339);
  EXPECT_NEAR(moments.deviation, expected, 0.02 * expected);
}

TEST(SyntheticValuesTest, KeepNormsNearOne) {
  const ModelSpec spec = FullWidthSpec(4, 16);
  const TensorSpec tensor = LayerTensor(spec, 1, "input_layernorm.weight");
  const Moments moments = MomentsOf(Bf16Values(BytesOf(spec, tensor, 3)));
  EXPECT_NEAR(moments.mean, 1, 0.02);
  EXPECT_NEAR(moments.deviation, 0.25, 0.01);
}

TEST(SyntheticValuesTest, KeepScalesInTheReleasedBand) {
  const ModelSpec spec = FullWidthSpec(4, 16);
  for (const size_t scale_tensor : {1, 3, 5}) {
    const TensorSpec tensor = ExpertTensors(spec, {1, 0})[scale_tensor];
    for (const uint8_t scale : BytesOf(spec, tensor, 3)) {
      ASSERT_GE(scale, 117) << tensor.name;
      ASSERT_LE(scale, 122) << tensor.name;
    }
  }
}

TEST(SyntheticValuesTest, PadALogWithZeros) {
  const ModelSpec spec = FullWidthSpec(4, 16);
  const TensorSpec tensor = LayerTensor(spec, 0, "self_attn.A_log");
  std::vector<float> values(128);
  const std::vector<uint8_t> bytes = BytesOf(spec, tensor, 3);
  ASSERT_EQ(bytes.size(), 512u);
  std::memcpy(values.data(), bytes.data(), 512);
  for (int head = 0; head < 128; ++head) {
    EXPECT_EQ(values[head] == 0.0f, head >= 96) << head;
  }
}

}  // namespace
}  // namespace deltafin
