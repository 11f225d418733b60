// Must hold for every cluster: one model, one prompt, one output_sha256. A
// quick selection; long_hash_matrix_test has the whole matrix.

#include <gtest/gtest.h>

#include "kernels/kernel_registry.h"
#include "tests/integration/hash_case.h"
#include "tests/testing/temp_dir.h"

namespace deltafin::testing {
namespace {

// Of NanoGeneration(); differs only where numerics version or k3-nano do.
constexpr char kNanoHash[] =
    "14dc4a9955581dec3bbc13f9b5406093dfc466d7f2190759b5f95449aaf1cc30";

class HashMatrixTest : public ::testing::Test {
 protected:
  void ExpectSameHash(const HashCase& hash_case) {
    EXPECT_EQ(RunHashCase(NanoGeneration(), hash_case), plain_hash())
        << hash_case.Name();
  }
  static const std::string& plain_hash() {
    static const std::string hash = RunHashCase(NanoGeneration(), {});
    return hash;
  }
};

TEST_F(HashMatrixTest, EveryCompilerGivesTheSameBits) {
  EXPECT_EQ(plain_hash(), kNanoHash);
}

TEST_F(HashMatrixTest, ThreeNodesGiveTheSameBits) {
  ExpectSameHash({.num_nodes = 3});
}

TEST_F(HashMatrixTest, RandomPlacementAndLateRepliesGiveTheSameBits) {
  ExpectSameHash(
      {.num_nodes = 2, .placement = "random:7", .reply_delay = "500:"});
}

TEST_F(HashMatrixTest, EveryKernelGivesTheSameBits) {
  for (const KernelTarget* target : CompiledKernels()) {
    if (!target->supported()) continue;
    ExpectSameHash({.kernel = target->name});
  }
}

TEST_F(HashMatrixTest, AnyNumberOfThreadsGivesTheSameBits) {
  ExpectSameHash({.threads = 1});
  ExpectSameHash({.threads = 7});
}

TEST_F(HashMatrixTest, AnyPrefillChunkGivesTheSameBits) {
  ExpectSameHash({.prefill_chunk = 1});
  ExpectSameHash({.prefill_chunk = 7});
}

TEST_F(HashMatrixTest, ATierOfThreeExpertsGivesTheSameBits) {
  ExpectSameHash({.ram = "15K"});
}

TEST_F(HashMatrixTest, ReadingAheadDoesNotShow) {
  Words flags{"run",          "--prompt-ids", "1063,315",
              "--ignore-eos", "--ram",        "500K",
              "--stats",      "--json",       "--max-new-tokens",
              "40",           "--read-ahead"};
  const auto run = [&](const char* choice) {
    Words all = flags;
    all.push_back(choice);
    return RunDeltafinJson(all);
  };
  const nlohmann::json on = run("on");
  const nlohmann::json off = run("off");
  EXPECT_EQ(on["output_sha256"], off["output_sha256"]);
  EXPECT_GT(on["stats"]["nodes"][0]["expected_used"], 0);
  EXPECT_EQ(off["stats"]["nodes"][0]["expected_used"], 0);
  EXPECT_EQ(off["stats"]["nodes"][0]["expected_wasted"], 0);
}

TEST_F(HashMatrixTest, CutsThroughExpertsGiveTheSameBits) {
  const TempDir folder;
  const HashedGeneration sliced = SlicedGeneration(folder.File("model"));
  const std::string plain = RunHashCase(sliced, {});
  EXPECT_EQ(RunHashCase(sliced, {.num_nodes = 3}), plain);
  EXPECT_EQ(RunHashCase(sliced, {.num_nodes = 2, .placement = "random:3"}),
            plain);
}

TEST_F(HashMatrixTest, AnotherPromptGivesAnotherHash) {
  HashedGeneration other = NanoGeneration();
  other.prompt_ids.front() = '2';
  EXPECT_NE(RunHashCase(other, {}), plain_hash());
}

}  // namespace
}  // namespace deltafin::testing
