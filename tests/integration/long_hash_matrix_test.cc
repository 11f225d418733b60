// The whole matrix of clusters, kernels, threads and chunks, repeated: one
// output_sha256. Takes minutes.

#include <gtest/gtest.h>

#include "kernels/kernel_registry.h"
#include "tests/integration/hash_case.h"
#include "tests/testing/temp_dir.h"

namespace deltafin::testing {
namespace {

constexpr int kRepetitions = 20;

std::vector<std::string> SupportedKernels() {
  std::vector<std::string> names;
  for (const KernelTarget* target : CompiledKernels()) {
    if (target->supported()) names.push_back(target->name);
  }
  return names;
}

// Every value of every axis, the axes turning at different speeds, so that a
// repetition meets other combinations than the one before.
std::vector<HashCase> CasesOfRepetition(int repetition) {
  const std::vector<int> nodes{0, 1, 2, 3, 5, 8};
  const std::vector<int> threads{1, 2, 7};
  const std::vector<int> chunks{1, 7, 32, 0};
  const std::vector<std::string> kernels = SupportedKernels();
  std::vector<HashCase> cases;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const size_t turn = i + repetition;
    HashCase hash_case;
    hash_case.num_nodes = nodes[i];
    hash_case.threads = threads[turn % threads.size()];
    hash_case.prefill_chunk = chunks[turn % chunks.size()];
    hash_case.kernel = kernels[(turn / 3) % kernels.size()];
    if ((turn / 2) % 2 == 0) {
      hash_case.placement = "random:" + std::to_string(turn);
    }
    if (nodes[i] > 0 && (turn / 5) % 2 == 0) {
      hash_case.reply_delay = "700:" + std::to_string(turn);
    }
    if (nodes[i] < 3 && (i + 2 * repetition) % 5 == 1) hash_case.ram = "15K";
    cases.push_back(hash_case);
  }
  return cases;
}

void ExpectOneHash(const HashedGeneration& generation, bool with_small_tier) {
  const std::string plain = RunHashCase(generation, {});
  ASSERT_FALSE(plain.empty());
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    for (HashCase hash_case : CasesOfRepetition(repetition)) {
      if (!with_small_tier) hash_case.ram.clear();
      ASSERT_EQ(RunHashCase(generation, hash_case), plain)
          << "repetition " << repetition << ": " << hash_case.Name();
    }
  }
}

TEST(LongHashMatrixTest, NanoHasOneHashInEveryCluster) {
  ExpectOneHash(NanoGeneration(), true);
}

TEST(LongHashMatrixTest, CutExpertsHaveOneHashInEveryCluster) {
  const TempDir folder;
  ExpectOneHash(SlicedGeneration(folder.File("model")), false);
}

}  // namespace
}  // namespace deltafin::testing
