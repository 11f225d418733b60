// The int8 spine: what it rounds, and how its files are made, kept, checked and
// made again.
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "spine_node/cpu/linear.h"
#include "spine_node/spine_loader.h"
#include "tests/testing/model_copy.h"

namespace deltafin::testing {
namespace {

namespace fs = std::filesystem;

const std::string kTinyDir = DELTAFIN_SOURCE_DIR "/tests/golden/tiny-a";
constexpr int kNumFiles = 14;  // 13 layers and the head

// Name and inode of every finished file: a file made again has a new inode.
std::map<std::string, ino_t> Files(const std::string& folder) {
  std::map<std::string, ino_t> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".spine") continue;
    struct stat info;
    EXPECT_EQ(stat(entry.path().c_str(), &info), 0);
    files[entry.path().filename().string()] = info.st_ino;
  }
  return files;
}

class Int8SpineTest : public ::testing::Test {
 protected:
  SpineOptions Options() {
    SpineOptions options;
    options.model_dir = model_.path();
    options.precision = SpinePrecision::kInt8;
    options.kernel = &BestKernel();
    options.threads = &threads_;
    return options;
  }

  // Int8 payloads of all units.
  static std::vector<std::string> Payloads(const SpineWeights& weights) {
    std::vector<std::string> payloads;
    const auto add = [&](const WeightMemory& memory) {
      payloads.emplace_back(reinterpret_cast<const char*>(memory.rows.data()),
                            memory.rows.size());
    };
    for (const LayerWeights& layer : weights.layers) add(layer.memory);
    add(weights.head.memory);
    return payloads;
  }

  std::vector<std::string> LoadPayloads() {
    auto weights = LoadSpineWeights(Options());
    EXPECT_TRUE(weights.ok()) << weights.status();
    return Payloads(*weights);
  }

  std::string Folder() const { return model_.File("deltafin-spine-int8"); }

  ModelCopy model_{kTinyDir};
  ThreadPool threads_{2, "test"};
};

TEST_F(Int8SpineTest, RowsAreWithinHalfAStepOfTheReleasedOnes) {
  auto int8 = LoadSpineWeights(Options());
  ASSERT_TRUE(int8.ok()) << int8.status();
  SpineOptions bf16_options = Options();
  bf16_options.precision = SpinePrecision::kBf16;
  auto bf16 = LoadSpineWeights(bf16_options);
  ASSERT_TRUE(bf16.ok()) << bf16.status();

  // Unit vectors read a matrix out through the products themselves.
  const LinearWeights& exact = bf16->layers[2].kda.o;
  const LinearWeights& rounded = int8->layers[2].kda.o;
  ASSERT_EQ(exact.format, WeightFormat::kBf16);
  ASSERT_EQ(rounded.format, WeightFormat::kInt8);
  auto linear = Linear::Create(
      BestKernel().linear, threads_,
      {.max_tokens = 1, .max_cols = exact.cols, .max_head_cols = 1});
  ASSERT_TRUE(linear.ok());
  std::vector<float> x(exact.cols), a(exact.rows), b(exact.rows);
  for (int c = 0; c < exact.cols; ++c) {
    std::fill(x.begin(), x.end(), 0.0f);
    x[c] = 1.0f;
    const Activations unit = {x.data(), x.size(), 1};
    ASSERT_TRUE(
        (*linear)->Run(unit, {{"bf16", exact, a.data(), a.size()}}).ok());
    ASSERT_TRUE(
        (*linear)->Run(unit, {{"int8", rounded, b.data(), b.size()}}).ok());
    for (int r = 0; r < exact.rows; ++r) {
      EXPECT_LE(std::abs(a[r] - b[r]), 0.5001f * rounded.row_scale[r]);
    }
  }
}

TEST_F(Int8SpineTest, ListedMatricesAreInt8AndTheOthersBf16) {
  auto weights = LoadSpineWeights(Options());
  ASSERT_TRUE(weights.ok()) << weights.status();
  const auto format = [](const LinearWeights& w) { return w.format; };
  const auto int8 = ::testing::ResultOf(format, WeightFormat::kInt8);
  const auto bf16 = ::testing::ResultOf(format, WeightFormat::kBf16);
  const LayerWeights& kda = weights->layers[0];
  for (const LinearWeights* w :
       {&kda.kda.q, &kda.kda.k, &kda.kda.v, &kda.kda.g, &kda.kda.o,
        &kda.dense.gate, &kda.dense.up, &kda.dense.down}) {
    EXPECT_THAT(*w, int8);
  }
  for (const LinearWeights* w : {&kda.kda.f_a, &kda.kda.f_b, &kda.kda.b}) {
    EXPECT_THAT(*w, bf16);
  }
  const LayerWeights& mla = weights->layers[3];
  for (const LinearWeights* w :
       {&mla.mla.q_a, &mla.mla.q_b, &mla.mla.kv_a, &mla.mla.g, &mla.mla.o,
        &mla.moe.latent_down, &mla.moe.latent_up, &mla.moe.shared.gate,
        &mla.moe.shared.up, &mla.moe.shared.down,
        &std::as_const(weights->head.lm_head)}) {
    EXPECT_THAT(*w, int8);
  }
  EXPECT_THAT(mla.mla.keys, ::testing::Each(bf16));
  EXPECT_THAT(mla.mla.values, ::testing::Each(bf16));
  EXPECT_THAT(mla.moe.router, bf16);
}

TEST_F(Int8SpineTest, IsMadeOnceAndReadAfterwards) {
  const auto made = LoadPayloads();
  const auto files = Files(Folder());
  EXPECT_EQ(files.size(), kNumFiles);
  EXPECT_EQ(LoadPayloads(), made);
  EXPECT_EQ(Files(Folder()), files);
}

TEST_F(Int8SpineTest, FinishedFilesSurviveAnInterruption) {
  const auto made = LoadPayloads();
  const auto before = Files(Folder());
  fs::remove(Folder() + "/layer-05.spine");
  fs::remove(Folder() + "/head.spine");
  std::ofstream(Folder() + "/layer-05.spine.tmp-123-0") << "half";
  EXPECT_EQ(LoadPayloads(), made);
  auto after = Files(Folder());
  ASSERT_EQ(after.size(), kNumFiles);
  for (const auto& [name, inode] : before) {
    if (name == "layer-05.spine" || name == "head.spine") continue;
    EXPECT_EQ(after[name], inode) << name;
  }
  EXPECT_FALSE(fs::exists(Folder() + "/layer-05.spine.tmp-123-0"));
}

TEST_F(Int8SpineTest, DamagedFileIsNamedAndMadeAgain) {
  const auto made = LoadPayloads();
  const std::string path = Folder() + "/layer-07.spine";
  for (const uint64_t offset : {uint64_t{4096 + 1000}, uint64_t{20}}) {
    const auto before = Files(Folder());
    EditFile(path, offset, [](uint8_t& byte) { byte ^= 1; });
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(LoadPayloads(), made);
    const std::string log = ::testing::internal::GetCapturedStdout();
    EXPECT_THAT(log, ::testing::HasSubstr("layer-07.spine: damaged"));
    auto after = Files(Folder());
    EXPECT_NE(after["layer-07.spine"], before.at("layer-07.spine"));
    EXPECT_EQ(after["layer-06.spine"], before.at("layer-06.spine"));
  }
}

TEST_F(Int8SpineTest, ShortFileIsMadeAgain) {
  const auto made = LoadPayloads();
  for (const uint64_t size : {0, 100, 4096, 5000}) {
    fs::resize_file(Folder() + "/layer-02.spine", size);
    EXPECT_EQ(LoadPayloads(), made) << size;
  }
}

TEST_F(Int8SpineTest, ChangedWeightsMakeTheirLayersAgain) {
  LoadPayloads();
  const auto before = Files(Folder());
  model_.EditTensor("language_model.model.layers.4.self_attn.q_proj.weight",
                    [](std::span<uint8_t> bytes) { bytes[0] ^= 0x40; });
  LoadPayloads();
  auto after = Files(Folder());
  EXPECT_NE(after["layer-04.spine"], before.at("layer-04.spine"));
  EXPECT_EQ(after["layer-03.spine"], before.at("layer-03.spine"));
}

TEST_F(Int8SpineTest, ModelFolderThatCannotBeWrittenUsesTheCacheFolder) {
  // A file in the folder's place: writing fails for root, too.
  std::ofstream(Folder()) << "";
  auto refused = LoadSpineWeights(Options());
  EXPECT_TRUE(absl::IsFailedPrecondition(refused.status()));
  EXPECT_THAT(std::string(refused.status().message()),
              ::testing::HasSubstr("--cache-dir"));

  TempDir cache;
  SpineOptions options = Options();
  options.cache_dir = cache.File("deltafin");
  auto made = LoadSpineWeights(options);
  ASSERT_TRUE(made.ok()) << made.status();
  ASSERT_EQ(std::distance(fs::directory_iterator(options.cache_dir), {}), 1);
  const std::string folder =
      fs::directory_iterator(options.cache_dir)->path().string();
  EXPECT_EQ(Files(folder).size(), kNumFiles);
  const auto files = Files(folder);
  auto again = LoadSpineWeights(options);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(Payloads(*again), Payloads(*made));
  EXPECT_EQ(Files(folder), files);
}

TEST_F(Int8SpineTest, RowThatCannotBeQuantisedIsNamed) {
  model_.EditTensor("language_model.model.layers.4.self_attn.k_proj.weight",
                    [](std::span<uint8_t> bytes) {
                      bytes[64 * 2 * 3 + 1] = 0x7f;  // row 3: inf
                      bytes[64 * 2 * 3] = 0x80;
                    });
  const auto weights = LoadSpineWeights(Options());
  EXPECT_TRUE(absl::IsInvalidArgument(weights.status()));
  EXPECT_THAT(std::string(weights.status().message()),
              ::testing::HasSubstr("layers.4.self_attn.k_proj.weight row 3"));
  // What was finished is kept.
  EXPECT_EQ(Files(Folder()).size(), 4u);
}

}  // namespace
}  // namespace deltafin::testing
