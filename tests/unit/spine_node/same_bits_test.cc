// A sequence's logits do not depend on prompt cuts, threads, kernel target or
// batch companions (docs/numerics.md), bit for bit.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/kernel_registry.h"
#include "tests/testing/model_copy.h"
#include "tests/testing/spine_run.h"

namespace deltafin::testing {
namespace {

using Bits = std::vector<uint32_t>;

// More than two token groups of 128, and more than one attention block of 256.
constexpr int kPromptTokens = 300;

// The model is chosen by the build: a tiny one for every run, k3-nano with the
// long tests.
const std::string kModelDir = DELTAFIN_SOURCE_DIR "/" SAME_BITS_MODEL;

class SameBitsTest : public ::testing::TestWithParam<SpinePrecision> {
 protected:
  SpineRun MakeRun(int num_threads = 1, const std::string& kernel = "") {
    return SpineRun(model_.path(), {.precision = GetParam(),
                                    .kernel = kernel,
                                    .num_threads = num_threads});
  }

  // Logits after every position, prompt cut into chunks of at most `chunk`.
  static Bits AllLogits(SpineRun& run, std::span<const int32_t> ids,
                        int chunk) {
    auto state = run.NewSequence();
    Bits bits;
    while (!ids.empty()) {
      const size_t take = std::min<size_t>(chunk, ids.size());
      const auto logits = run.Feed(*state, ids.first(take), LogitsRows::kAll);
      EXPECT_TRUE(logits.ok()) << logits.status();
      const Bits more = ToBits(*logits);
      bits.insert(bits.end(), more.begin(), more.end());
      ids = ids.subspan(take);
    }
    return bits;
  }

  ModelCopy model_{kModelDir};
};

TEST_P(SameBitsTest, PromptMayBeCutAnywhere) {
  SpineRun run = MakeRun();
  const auto ids = MakeIds(kPromptTokens, 1, run.spec().vocab_size);
  const Bits whole = AllLogits(run, ids, kPromptTokens);
  for (const int chunk : {1, 7, 32, 129}) {
    EXPECT_TRUE(AllLogits(run, ids, chunk) == whole) << "chunks of " << chunk;
  }
}

TEST_P(SameBitsTest, AnyNumberOfThreadsMayCompute) {
  SpineRun one = MakeRun(1);
  const auto ids = MakeIds(kPromptTokens, 2, one.spec().vocab_size);
  const Bits expected = AllLogits(one, ids, 100);
  for (const int threads : {2, 7}) {
    SpineRun run = MakeRun(threads);
    EXPECT_TRUE(AllLogits(run, ids, 100) == expected) << threads << " threads";
  }
}

TEST_P(SameBitsTest, AnyKernelTargetMayCompute) {
  SpineRun reference = MakeRun(2, "reference");
  const auto ids = MakeIds(40, 3, reference.spec().vocab_size);
  const Bits expected = AllLogits(reference, ids, 40);
  for (const KernelTarget* target : CompiledKernels()) {
    if (!target->supported()) {
      std::printf("kernel %s: not run, this machine lacks %s\n", target->name,
                  target->requirements);
      continue;
    }
    SpineRun run = MakeRun(2, target->name);
    EXPECT_TRUE(AllLogits(run, ids, 40) == expected) << target->name;
    std::printf("kernel %s: run\n", target->name);
  }
}

TEST_P(SameBitsTest, BatchCompanionsDoNotShow) {
  SpineRun run = MakeRun(2);
  const int vocab = run.spec().vocab_size;
  const std::vector<std::vector<int32_t>> ids = {
      MakeIds(kPromptTokens, 4, vocab), MakeIds(5, 5, vocab),
      MakeIds(131, 6, vocab)};
  const std::vector<int32_t> next = MakeIds(3, 7, vocab);
  std::vector<Bits> alone;
  for (int i = 0; i < 3; ++i) {
    auto state = run.NewSequence();
    Bits bits = ToBits(*run.Feed(*state, ids[i]));
    const Bits more = ToBits(*run.Feed(*state, {&next[i], 1}));
    bits.insert(bits.end(), more.begin(), more.end());
    alone.push_back(bits);
  }

  // Together, sequence 2 joining one step later.
  std::vector<std::unique_ptr<SequenceState>> states;
  for (int i = 0; i < 3; ++i) states.push_back(run.NewSequence());
  const std::vector<SequenceSlice> first = {{states[1].get(), ids[1]},
                                            {states[0].get(), ids[0]}};
  const std::vector<SequenceSlice> second = {{states[0].get(), {&next[0], 1}},
                                             {states[2].get(), ids[2]},
                                             {states[1].get(), {&next[1], 1}}};
  const std::vector<SequenceSlice> third = {{states[2].get(), {&next[2], 1}}};
  const Bits a = ToBits(*run.Step(first));
  const Bits b = ToBits(*run.Step(second));
  const Bits c = ToBits(*run.Step(third));
  const auto row = [vocab](const Bits& bits, int r) {
    return Bits(bits.begin() + r * vocab, bits.begin() + (r + 1) * vocab);
  };
  const auto join = [](Bits x, const Bits& y) {
    x.insert(x.end(), y.begin(), y.end());
    return x;
  };
  EXPECT_TRUE(join(row(a, 1), row(b, 0)) == alone[0]);
  EXPECT_TRUE(join(row(a, 0), row(b, 2)) == alone[1]);
  EXPECT_TRUE(join(row(b, 1), row(c, 0)) == alone[2]);
}

INSTANTIATE_TEST_SUITE_P(Spines, SameBitsTest,
                         ::testing::Values(SpinePrecision::kBf16,
                                           SpinePrecision::kInt8),
                         [](const auto& info) {
                           return info.param == SpinePrecision::kInt8 ? "Int8"
                                                                      : "Bf16";
                         });

}  // namespace
}  // namespace deltafin::testing
