// The libtorch spine through the program: same text, clean loading and exit
// beside gRPC.

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/integration/deltafin_program.h"

namespace deltafin::testing {
namespace {

const ProcessOptions kOneBlasThread = {
    "", {"OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1"}};

TEST(TorchDeviceTest, ContinuesAPromptLikeTheReference) {
  const auto golden = ReadJsonFile(NanoModelDir() + "/eval/golden.json");
  const auto& prompt = golden["prompts"][0];
  const auto report = RunDeltafinJson(
      {"run", "--device", "torch-cpu", "--threads", "1", "--prompt",
       prompt["text"], "--bos", "--max-new-tokens", "64"});
  EXPECT_EQ(report["output_ids"], prompt["float32"]["greedy"]);
  EXPECT_EQ(report["spine"], "torch-cpu");
}

// None, some and all of the layers on the device, the others on the host.
TEST(TorchDeviceTest, ContinuesAPromptWhereverTheLayersRun) {
  const auto golden = ReadJsonFile(NanoModelDir() + "/eval/golden.json");
  const auto& prompt = golden["prompts"][0];
  const std::pair<const char*, const char*> placements[] = {
      {"0", "cpu-bf16"}, {"6M", "torch-cpu+cpu-bf16"}, {"1G", "torch-cpu"}};
  for (const auto& [ram, spine] : placements) {
    const auto report =
        RunDeltafinJson({"run", "--device", "torch-cpu", "--device-ram", ram,
                         "--threads", "1", "--context", "128", "--prompt",
                         prompt["text"], "--bos", "--max-new-tokens", "64"});
    EXPECT_EQ(report["output_ids"], prompt["float32"]["greedy"]) << ram;
    EXPECT_EQ(report["spine"], spine) << ram;
  }
}

TEST(TorchDeviceTest, LoadsAndExitsCleanlyAHundredTimes) {
  for (int i = 0; i < 100; ++i) {
    auto process = Process::Start(
        {DeltafinBinary(), "run", "--device", "torch-cpu", "--threads", "1",
         "--prompt-ids", "5,6,7", "--max-new-tokens", "1", "--ignore-eos"},
        kOneBlasThread);
    ASSERT_TRUE(process.ok()) << process.status();
    const auto code = (*process)->Wait(absl::Minutes(2));
    ASSERT_TRUE(code.ok()) << code.status();
    ASSERT_EQ(*code, 0) << "cycle " << i << ": " << (*process)->err();
  }
}

}  // namespace
}  // namespace deltafin::testing
