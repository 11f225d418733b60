// A spine some of whose layers are read for every step has the bits of one in
// memory, and ends a step with one error when a layer cannot be read.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "spine_node/memory_needs.h"
#include "spine_node/residency.h"
#include "tests/testing/faulty_reads.h"
#include "tests/testing/model_copy.h"
#include "tests/testing/spine_run.h"

namespace deltafin::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kNanoDir = DELTAFIN_SOURCE_DIR "/deploy/models/k3-nano";
const std::string kTinyDir = DELTAFIN_SOURCE_DIR "/tests/golden/tiny-a";
constexpr int kNumLayers = 13;  // of both

std::vector<uint32_t> Bits(const absl::StatusOr<std::vector<float>>& values) {
  EXPECT_TRUE(values.ok()) << values.status();
  return values.ok() ? ToBits(*values) : std::vector<uint32_t>();
}

std::string BytesOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class StreamedSpineTest : public ::testing::TestWithParam<SpinePrecision> {
 protected:
  ~StreamedSpineTest() override { ClearFaults(); }

  SpineRun Run(const ModelCopy& model, int num_streamed) {
    return SpineRun(model.path(), {.precision = GetParam(),
                                   .num_threads = 2,
                                   .num_streamed_layers = num_streamed});
  }

  std::string Folder(const ModelCopy& model) const {
    return model.File(GetParam() == SpinePrecision::kInt8
                          ? "deltafin-spine-int8"
                          : "deltafin-spine-bf16");
  }

  // A prompt, single tokens, two sequences in one step.
  static std::vector<std::vector<uint32_t>> Everything(SpineRun& run) {
    std::vector<std::vector<uint32_t>> rows;
    auto a = run.NewSequence();
    auto b = run.NewSequence();
    const std::vector<int32_t> prompt = MakeIds(40, 1);
    const std::vector<int32_t> other = MakeIds(150, 2);
    rows.push_back(Bits(run.Feed(*a, prompt, LogitsRows::kAll)));
    for (const int32_t& id : MakeIds(3, 3)) {
      rows.push_back(Bits(run.Feed(*a, {&id, 1})));
    }
    const std::vector<SequenceSlice> slices = {{b.get(), other},
                                               {a.get(), {&prompt[5], 1}}};
    rows.push_back(Bits(run.Step(slices)));
    return rows;
  }
};

TEST_P(StreamedSpineTest, NanoHasTheSameBitsHoweverMuchStreams) {
  const ModelCopy model(kNanoDir);
  SpineRun resident = Run(model, 0);
  const auto expected = Everything(resident);
  for (const int streamed : {kNumLayers / 2, kNumLayers - 2, kNumLayers}) {
    SpineRun run = Run(model, streamed);
    EXPECT_EQ(run.spine().description().streamed_layers, streamed);
    EXPECT_TRUE(Everything(run) == expected) << streamed << " layers streamed";
  }
}

TEST_P(StreamedSpineTest, TinyHasTheSameBitsHoweverMuchStreams) {
  const ModelCopy model(kTinyDir);
  SpineRun resident = Run(model, 0);
  const auto expected = Everything(resident);
  for (const int streamed : {1, 2, 3, 5, kNumLayers}) {
    SpineRun run = Run(model, streamed);
    EXPECT_TRUE(Everything(run) == expected) << streamed << " layers streamed";
  }
}

TEST_P(StreamedSpineTest, MemoryIsWhatWasPlanned) {
  const ModelCopy model(kTinyDir);
  for (const int streamed : {0, 3, 7, kNumLayers}) {
    SpineRun run = Run(model, streamed);
    const SpineMemoryNeeds needs = SpineNeeds(run.spec(), GetParam());
    const SpineResidency residency =
        ResidencyOf(needs.weight_bytes, needs.layer_row_bytes, streamed);
    const SpineDescription description = run.spine().description();
    EXPECT_EQ(description.weight_bytes,
              static_cast<int64_t>(residency.memory_bytes));
    EXPECT_EQ(description.streamed_bytes,
              static_cast<int64_t>(residency.step_bytes));
  }
}

TEST_P(StreamedSpineTest, CountsWhatEveryStepReads) {
  const ModelCopy model(kTinyDir);
  SpineRun run = Run(model, 5);
  const SpineDescription description = run.spine().description();
  auto state = run.NewSequence();
  constexpr int kSteps = 4;
  for (const int32_t& id : MakeIds(kSteps, 4)) Bits(run.Feed(*state, {&id, 1}));
  const SpineTimings timings = run.spine().TakeTimings();
  const int64_t layer = description.streamed_bytes / 5;
  EXPECT_GE(timings.stream_bytes, kSteps * description.streamed_bytes);
  // And what is read ahead for a fifth step.
  EXPECT_LE(timings.stream_bytes,
            kSteps * description.streamed_bytes + 4 * layer);
  EXPECT_GT(timings.stream, 0);
}

TEST_P(StreamedSpineTest, OnlyFilesThatAreNeededAreMadeAndOnlyOnce) {
  const ModelCopy model(kTinyDir);
  Run(model, 4);
  int num_files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(Folder(model))) {
    num_files += entry.path().extension() == ".spine";
  }
  const bool int8 = GetParam() == SpinePrecision::kInt8;
  EXPECT_EQ(num_files, int8 ? kNumLayers + 1 : 4);
  const std::string file = Folder(model) + "/layer-12.spine";
  const auto made = std::filesystem::last_write_time(file);
  Run(model, 4);
  EXPECT_EQ(std::filesystem::last_write_time(file), made);
}

TEST_P(StreamedSpineTest, AReadErrorEndsTheStepAndNamesLayerAndFile) {
  const ModelCopy model(kTinyDir);
  SpineRun run = Run(model, 6);
  auto reference = run.NewSequence();
  const std::vector<int32_t> ids = MakeIds(9, 5);
  const auto expected = Bits(run.Feed(*reference, ids));
  ASSERT_TRUE(StreamsLayer(6, kNumLayers, 6));
  const std::string file = Folder(model) + "/layer-06.spine";
  FailReadsAt(file, 4096);
  auto state = run.NewSequence();
  const auto logits = run.Feed(*state, ids);
  EXPECT_EQ(logits.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(logits.status().message()),
              AllOf(HasSubstr("layer 6"), HasSubstr(file),
                    HasSubstr("Input/output error")));
  // The drive is well again, and so is the next request.
  ClearFaults();
  auto next = run.NewSequence();
  EXPECT_TRUE(Bits(run.Feed(*next, ids)) == expected);
}

TEST_P(StreamedSpineTest, ADamagedFileIsMadeAgainOnce) {
  const ModelCopy model(kTinyDir);
  const std::vector<int32_t> ids = MakeIds(9, 6);
  SpineRun resident = Run(model, 0);
  auto reference = resident.NewSequence();
  const auto expected = Bits(resident.Feed(*reference, ids));
  Run(model, 6);
  const std::string file = Folder(model) + "/layer-08.spine";
  const std::string whole = BytesOf(file);
  EditFile(file, 4096 + 99, [](uint8_t& byte) { byte ^= 1; });
  SpineRun run = Run(model, 6);
  for (int i = 0; i < 2; ++i) {
    auto state = run.NewSequence();
    EXPECT_TRUE(Bits(run.Feed(*state, ids)) == expected);
  }
  EXPECT_EQ(BytesOf(file), whole);
  // It is open and read as the others are, now that it is well.
  const auto made = std::filesystem::last_write_time(file);
  SpineRun again = Run(model, 6);
  auto state = again.NewSequence();
  EXPECT_TRUE(Bits(again.Feed(*state, ids)) == expected);
  EXPECT_EQ(std::filesystem::last_write_time(file), made);
}

TEST_P(StreamedSpineTest, ADamagedFileThatCannotBeMadeEndsTheStepAndIsNamed) {
  const ModelCopy model(kTinyDir);
  Run(model, 6);
  const std::string file = Folder(model) + "/layer-08.spine";
  EditFile(file, 4096 + 99, [](uint8_t& byte) { byte ^= 1; });
  SpineRun run = Run(model, 6);
  // Nor can files be written there any more.
  std::filesystem::rename(Folder(model), model.File("away"));
  auto state = run.NewSequence();
  const auto logits = run.Feed(*state, MakeIds(3, 6));
  EXPECT_EQ(logits.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(
      std::string(logits.status().message()),
      AllOf(HasSubstr("layer 8"), HasSubstr(file),
            HasSubstr("payload digest differs"),
            HasSubstr("cannot be made again"), HasSubstr("No such file")));
  std::filesystem::rename(model.File("away"), Folder(model));
  auto next = run.NewSequence();
  EXPECT_TRUE(run.Feed(*next, MakeIds(3, 6)).ok());
}

TEST_P(StreamedSpineTest, AShortFileIsMadeAgainAtTheStart) {
  const ModelCopy model(kTinyDir);
  const std::vector<int32_t> ids = MakeIds(9, 7);
  SpineRun resident = Run(model, 0);
  auto reference = resident.NewSequence();
  const auto expected = Bits(resident.Feed(*reference, ids));
  Run(model, 6);
  std::filesystem::resize_file(Folder(model) + "/layer-10.spine", 5000);
  SpineRun run = Run(model, 6);
  auto state = run.NewSequence();
  EXPECT_TRUE(Bits(run.Feed(*state, ids)) == expected);
}

INSTANTIATE_TEST_SUITE_P(Spines, StreamedSpineTest,
                         ::testing::Values(SpinePrecision::kBf16,
                                           SpinePrecision::kInt8),
                         [](const auto& info) {
                           return info.param == SpinePrecision::kInt8 ? "Int8"
                                                                      : "Bf16";
                         });

}  // namespace
}  // namespace deltafin::testing
