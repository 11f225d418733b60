// A spine larger than its memory, by whole programs: the same hash, what is
// said of it, what is refused, what a damaged layer does.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "spine_node/memory_needs.h"
#include "spine_node/residency.h"
#include "tests/integration/deltafin_program.h"
#include "tests/testing/model_copy.h"
#include "tests/testing/temp_dir.h"

namespace deltafin::testing {
namespace {

using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kNumLayers = 13;

class StreamingTest : public ::testing::TestWithParam<SpinePrecision> {
 protected:
  StreamingTest() : model_(folder_.File("model")) {
    CopyNano(model_);
    auto spec = ModelSpec::Load(model_);
    EXPECT_TRUE(spec.ok()) << spec.status();
    needs_ = SpineNeeds(*spec, GetParam());
  }

  std::string precision() const {
    return GetParam() == SpinePrecision::kInt8 ? "int8" : "bf16";
  }

  SpineResidency Residency(int num_streamed) const {
    return ResidencyOf(needs_.weight_bytes, needs_.layer_row_bytes,
                       num_streamed);
  }

  Words Flags(const Words& more) const {
    return Join({"run", "--model", model_, "--spine", precision(),
                 "--prompt-ids", "5,6,7,8,9,10,11,12,13,14,15",
                 "--max-new-tokens", "6", "--ignore-eos", "--stats"},
                more);
  }

  // With what `num_streamed` streamed layers take.
  Words LimitedFlags(int num_streamed, const Words& more = {}) const {
    return Flags(Join(
        {"--spine-ram", std::to_string(Residency(num_streamed).memory_bytes)},
        more));
  }

  const TempDir folder_;
  const std::string model_;
  SpineMemoryNeeds needs_;
};

TEST_P(StreamingTest, HasTheSameHashHoweverMuchIsRead) {
  const Json resident = RunDeltafinJson(Flags({}));
  EXPECT_EQ(resident["stats"]["settings"]["streamed_layers"], 0);
  EXPECT_EQ(resident["stats"]["spine_bytes_read"], 0);
  for (const int streamed : {kNumLayers / 2, kNumLayers - 2}) {
    for (const char* chunk : {"512", "3"}) {
      const Json run =
          RunDeltafinJson(LimitedFlags(streamed, {"--prefill-chunk", chunk}));
      EXPECT_EQ(run["output_sha256"], resident["output_sha256"])
          << streamed << " layers, chunk " << chunk;
      const Json& stats = run["stats"];
      EXPECT_EQ(stats["settings"]["streamed_layers"], streamed);
      // Every step reads all of them; two may be read ahead of the next.
      const int64_t step_bytes = stats["settings"]["streamed_bytes"];
      EXPECT_EQ(step_bytes,
                static_cast<int64_t>(Residency(streamed).step_bytes));
      const int64_t steps = stats["steps"];
      EXPECT_GE(stats["spine_bytes_read"], steps * step_bytes);
      EXPECT_LE(stats["spine_bytes_read"], (steps + 1) * step_bytes);
      EXPECT_GT(stats["seconds"]["spine_stream"], 0);
    }
  }
}

TEST_P(StreamingTest, StartUpSaysWhatIsRead) {
  const ProcessResult run = RunDeltafin(LimitedFlags(6));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.err,
              AllOf(HasSubstr("spine, 7 of 13 layers in memory"),
                    HasSubstr("buffers for 6 layers read for every step"),
                    HasSubstr("7 of 13 layers stay, 6 are read from disk for "
                              "every token"),
                    HasSubstr("a second, as just measured"),
                    HasSubstr("spine layers read: ")));
}

TEST_P(StreamingTest, LessThanTwoBuffersIsRefusedWithTheNumbers) {
  const ProcessResult run = RunDeltafin(Flags({"--spine-ram", "64K"}));
  EXPECT_EQ(run.exit_code, 69);
  EXPECT_THAT(run.err, AllOf(HasSubstr("--spine-ram 64.0 KiB"),
                             HasSubstr("the spine takes at least"),
                             HasSubstr("of it buffers")));
}

TEST_P(StreamingTest, ADamagedLayerIsMadeAgainFromTheShards) {
  const Json whole = RunDeltafinJson(LimitedFlags(6));
  const std::string file =
      model_ + "/deltafin-spine-" + precision() + "/layer-06.spine";
  ASSERT_TRUE(std::filesystem::exists(file));
  EditFile(file, 5000, [](uint8_t& byte) { byte ^= 1; });
  const ProcessResult run = RunDeltafin(LimitedFlags(6, {"--json"}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(Json::parse(run.out)["output_sha256"], whole["output_sha256"]);
  const auto message =
      AllOf(HasSubstr(file), HasSubstr("payload digest differs"),
            HasSubstr("making it again"));
  EXPECT_THAT(run.err, message);
  const ProcessResult next = RunDeltafin(LimitedFlags(6));
  EXPECT_EQ(next.exit_code, 0) << next.err;
  EXPECT_THAT(next.err, Not(HasSubstr("making it again")));
}

INSTANTIATE_TEST_SUITE_P(Spines, StreamingTest,
                         ::testing::Values(SpinePrecision::kBf16,
                                           SpinePrecision::kInt8),
                         [](const auto& info) {
                           return info.param == SpinePrecision::kInt8 ? "Int8"
                                                                      : "Bf16";
                         });

}  // namespace
}  // namespace deltafin::testing
