#include "expert_node/expert_engine.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <thread>

#include "tests/unit/expert_node/generated_experts.h"

namespace deltafin {
namespace {

// Two full slices and a short one.
constexpr ExpertShape kShape = {96, 544};
constexpr int kSlices = 3;

std::vector<int64_t> SumsOf(const LayerResult& result) {
  std::vector<int64_t> sums(result.sums.size() / sizeof(int64_t));
  std::memcpy(sums.data(), result.sums.data(), result.sums.size());
  return sums;
}

// An engine over generated experts.
class Machine {
 public:
  Machine(const KernelTarget& kernel, int num_threads, int capacity_experts) {
    auto lower = std::make_unique<GeneratedStore>(kShape);
    store = lower.get();
    const size_t capacity = ExpertCache::SlotBytes(kShape.slice_offset(1)) *
                            kSlices * capacity_experts;
    auto tiers = TieredStore::Create(std::move(lower), {capacity, 2});
    EXPECT_TRUE(tiers.ok()) << tiers.status();
    tiers_ = *std::move(tiers);
    engine = std::make_unique<ExpertEngine>(kernel, SituParams(), *tiers_,
                                            num_threads);
  }

  LayerResult Run(const LayerWork& work) { return RunParts({work})[0]; }
  std::vector<LayerResult> RunParts(const std::vector<LayerWork>& parts) {
    std::vector<const LayerWork*> pointers;
    for (const LayerWork& part : parts) pointers.push_back(&part);
    return engine->Run(pointers, std::atomic<bool>(false));
  }
  TieredStoreStats stats() const { return tiers_->stats(); }

  GeneratedStore* store = nullptr;

 private:
  std::unique_ptr<TieredStore> tiers_;

 public:
  std::unique_ptr<ExpertEngine> engine;
};

// `work` restricted to the slices that node `node` of `num_nodes` has when
// slices go round.
LayerWork ShareOf(const LayerWork& work, int node, int num_nodes) {
  LayerWork share = work;
  share.assignments.clear();
  share.assignment_end.clear();
  for (int t = 0; t < work.num_tokens; ++t) {
    for (const Assignment& a : work.assignments_of(t)) {
      for (int s = a.run.first; s < a.run.first + a.run.count; ++s) {
        if ((a.expert + s) % num_nodes != node) continue;
        share.assignments.push_back({a.expert, {s, 1}, a.weight});
      }
    }
    share.assignment_end.push_back(static_cast<int>(share.assignments.size()));
  }
  return share;
}

TEST(ExpertEngineTest, GivesTheDefinedSumsForAnyTokensThreadsAndKernel) {
  const ModelSpec spec = SmallSpec(kShape);
  for (const int num_tokens : {1, 2, 17, 40}) {
    const LayerWork work = GeneratedWork(spec, 2, num_tokens, num_tokens);
    const std::vector<int64_t> want = DefinedSums(spec, work);
    for (const KernelTarget* kernel : CompiledKernels()) {
      if (!kernel->supported()) continue;
      for (const int threads : {1, 3}) {
        const LayerResult result = Machine(*kernel, threads, 8).Run(work);
        ASSERT_TRUE(result.status.ok()) << result.status;
        EXPECT_EQ(result.slices_computed, num_tokens * 4 * kSlices);
        EXPECT_EQ(SumsOf(result), want)
            << kernel->name << ", " << threads << " threads, " << num_tokens
            << " tokens";
      }
    }
  }
}

TEST(ExpertEngineTest, SharesOfSlicesAddUpToTheDefinedSums) {
  const ModelSpec spec = SmallSpec(kShape);
  const LayerWork work = GeneratedWork(spec, 3, 9, 5);
  const std::vector<int64_t> want = DefinedSums(spec, work);
  for (const int num_nodes : {2, 3, 5}) {
    std::vector<int64_t> total(want.size(), 0);
    for (int node = 0; node < num_nodes; ++node) {
      const LayerResult result =
          Machine(BestKernel(), 2, 8).Run(ShareOf(work, node, num_nodes));
      ASSERT_TRUE(result.status.ok()) << result.status;
      const std::vector<int64_t> sums = SumsOf(result);
      for (size_t row = 0; row < result.tokens.size(); ++row) {
        for (int i = 0; i < kShape.latent_size; ++i) {
          total[result.tokens[row] * kShape.latent_size + i] +=
              sums[row * kShape.latent_size + i];
        }
      }
    }
    EXPECT_EQ(total, want) << num_nodes << " nodes";
  }
}

TEST(ExpertEngineTest, GivesTheSameSumsWhenMemoryHoldsOneExpert) {
  const ModelSpec spec = SmallSpec(kShape);
  const LayerWork work = GeneratedWork(spec, 2, 20, 3);
  Machine machine(BestKernel(), 2, 1);
  for (int round = 0; round < 3; ++round) {
    const LayerResult result = machine.Run(work);
    ASSERT_TRUE(result.status.ok()) << result.status;
    EXPECT_EQ(SumsOf(result), DefinedSums(spec, work));
  }
  EXPECT_GT(machine.stats().evictions, 0u);
}

TEST(ExpertEngineTest, CountsHitsMissesAndBytes) {
  const ModelSpec spec = SmallSpec(kShape);
  const LayerWork work = GeneratedWork(spec, 2, 1, 3);
  Machine machine(BestKernel(), 2, 8);
  const LayerResult cold = machine.Run(work);
  EXPECT_EQ(cold.cache_misses, 4 * kSlices);
  EXPECT_EQ(cold.bytes_read, 4 * kShape.payload_bytes());
  const LayerResult warm = machine.Run(work);
  EXPECT_EQ(warm.cache_hits, 4 * kSlices);
  EXPECT_EQ(warm.bytes_read, 0u);
}

TEST(ExpertEngineTest, ReturnsNoRowsForTokensWithoutWork) {
  LayerWork work = GeneratedWork(SmallSpec(kShape), 2, 3, 3);
  work.assignments.resize(work.assignment_end[0]);
  work.assignment_end = {4, 4, 4};
  const LayerResult result = Machine(BestKernel(), 2, 8).Run(work);
  EXPECT_EQ(result.tokens, std::vector<int>{0});
  EXPECT_EQ(result.sums.size(), sizeof(int64_t) * kShape.latent_size);
}

TEST(ExpertEngineTest, NamesTheLowestExpertAndTokenThatIsNotFinite) {
  const ModelSpec spec = SmallSpec(kShape);
  LayerWork work = GeneratedWork(spec, 2, 20, 3);
  for (const int token : {4, 11, 18}) {
    work.latent[token * kShape.latent_size + 5] =
        std::numeric_limits<float>::quiet_NaN();
  }
  // The lowest expert of any of the three, and the lowest token that has it.
  std::pair<int, int> want = {spec.num_experts, 0};
  for (const int token : {4, 11, 18}) {
    for (const Assignment& a : work.assignments_of(token)) {
      want = std::min(want, std::pair(a.expert, token));
    }
  }
  for (const int threads : {1, 3}) {
    const LayerResult result = Machine(BestKernel(), threads, 8).Run(work);
    EXPECT_EQ(result.status.code(), absl::StatusCode::kOutOfRange);
    EXPECT_EQ(std::pair(result.error_expert, result.error_token), want);
    EXPECT_TRUE(result.sums.empty());
    EXPECT_NE(std::string(result.status.message()).find("layer 2 expert"),
              std::string::npos)
        << result.status;
  }
}

TEST(ExpertEngineTest, NamesTheLowestOverflow) {
  const ModelSpec spec = SmallSpec(kShape);
  LayerWork work = GeneratedWork(spec, 2, 6, 3);
  std::pair<int, int> want = {spec.num_experts, 0};
  for (const int token : {2, 5}) {
    for (int i = work.assignment_end[token - 1]; i < work.assignment_end[token];
         ++i) {
      work.assignments[i].weight = 1e30f;
      want = std::min(want, std::pair(work.assignments[i].expert, token));
    }
  }
  const LayerResult result = Machine(BestKernel(), 3, 8).Run(work);
  EXPECT_EQ(result.status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(std::pair(result.error_expert, result.error_token), want);
}

TEST(ExpertEngineTest, AnExpertThatCannotBeReadFailsTheRequest) {
  const ModelSpec spec = SmallSpec(kShape);
  const LayerWork work = GeneratedWork(spec, 2, 20, 3);  // all eight experts
  Machine machine(BestKernel(), 2, 8);
  machine.store->set_failure([](ExpertKey key) {
    return key.expert == 6 ? absl::DataLossError("expert 6 is short")
                           : absl::OkStatus();
  });
  const LayerResult result = machine.Run(work);
  EXPECT_EQ(result.status, absl::DataLossError("expert 6 is short"));
  EXPECT_TRUE(result.sums.empty());
}

std::atomic<bool> cancel_in_kernel{false};
std::atomic<int> slices_run{0};

KernelStatus CancelAfterTheFirst(const ExpertSliceArgs&, int*) {
  ++slices_run;
  cancel_in_kernel = true;
  return KernelStatus::kOk;
}

TEST(ExpertEngineTest, StopsAtTheNextSliceWhenCancelled) {
  KernelTarget kernel = BestKernel();
  kernel.expert.run_slices = CancelAfterTheFirst;
  Machine machine(kernel, 2, 8);
  const LayerWork work = GeneratedWork(SmallSpec(kShape), 2, 1, 3);
  const LayerWork* const parts[] = {&work, &work};
  for (const LayerResult& result :
       machine.engine->Run(parts, cancel_in_kernel)) {
    EXPECT_EQ(result.status.code(), absl::StatusCode::kCancelled);
    EXPECT_TRUE(result.sums.empty());
  }
  EXPECT_LE(slices_run, 2);  // one for each thread
}

TEST(ExpertEngineTest, DoesNotBeginACancelledRun) {
  Machine machine(BestKernel(), 2, 8);
  const LayerWork work = GeneratedWork(SmallSpec(kShape), 2, 1, 3);
  const LayerWork* const parts[] = {&work};
  const auto results = machine.engine->Run(parts, std::atomic<bool>(true));
  EXPECT_EQ(results[0].status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(machine.store->num_reads(), 0);
}

// `num_parts` parts of one layer that are no two alike.
std::vector<LayerWork> GeneratedParts(const ModelSpec& spec, int num_parts,
                                      int num_tokens) {
  std::vector<LayerWork> parts;
  for (int part = 0; part < num_parts; ++part) {
    parts.push_back(GeneratedWork(spec, 2, num_tokens, 100 + part));
    parts.back().part = part;
  }
  return parts;
}

TEST(ExpertEngineTest, PartsThatRunTogetherReadEverySliceOnce) {
  const ModelSpec spec = SmallSpec(kShape);
  const auto parts = GeneratedParts(spec, 4, 128);
  Machine apart(BestKernel(), 2, 3), together(BestKernel(), 2, 3);
  const auto results = together.RunParts(parts);
  ASSERT_EQ(results.size(), parts.size());
  uint64_t bytes_read = 0;
  for (size_t p = 0; p < parts.size(); ++p) {
    const LayerResult alone = apart.Run(parts[p]);
    ASSERT_TRUE(results[p].status.ok()) << results[p].status;
    EXPECT_EQ(results[p].tokens, alone.tokens);
    EXPECT_EQ(results[p].sums, alone.sums) << "part " << p;
    EXPECT_EQ(results[p].slices_computed, alone.slices_computed);
    bytes_read += results[p].bytes_read;
  }
  EXPECT_EQ(together.store->num_slices_read(), spec.num_experts * kSlices);
  EXPECT_GT(apart.store->num_slices_read(), 2 * spec.num_experts * kSlices);
  EXPECT_EQ(bytes_read, spec.num_experts * kShape.payload_bytes());
  EXPECT_EQ(bytes_read, together.stats().bytes_read);
}

TEST(ExpertEngineTest, PartsInAnyCutAndOrderGiveTheDefinedSums) {
  const ModelSpec spec = SmallSpec(kShape);
  std::vector<LayerWork> parts = GeneratedParts(spec, 3, 5);
  parts[1] = ShareOf(parts[1], 0, 2);  // single slices
  parts[2].assignments.resize(parts[2].assignment_end[0]);
  parts[2].assignment_end.assign(5, parts[2].assignment_end[0]);  // one token
  std::swap(parts[0], parts[2]);
  const auto results = Machine(BestKernel(), 3, 2).RunParts(parts);
  EXPECT_EQ(results[0].tokens, std::vector<int>{0});
  for (size_t p = 0; p < parts.size(); ++p) {
    ASSERT_TRUE(results[p].status.ok()) << results[p].status;
    EXPECT_EQ(SumsOf(results[p]), DefinedSums(spec, parts[p])) << "part " << p;
  }
}

TEST(ExpertEngineTest, AnErrorInOnePartIsThatPartsAlone) {
  const ModelSpec spec = SmallSpec(kShape);
  std::vector<LayerWork> parts = GeneratedParts(spec, 3, 20);
  parts[1].latent[7 * kShape.latent_size] =
      std::numeric_limits<float>::quiet_NaN();
  Machine machine(BestKernel(), 2, 8);
  const auto results = machine.RunParts(parts);
  const LayerResult alone = machine.Run(parts[1]);
  EXPECT_EQ(results[1].status, alone.status);
  EXPECT_EQ(results[1].status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(results[1].error_expert, alone.error_expert);
  EXPECT_EQ(results[1].error_token, 7);
  EXPECT_TRUE(results[1].sums.empty());
  EXPECT_EQ(SumsOf(results[0]), DefinedSums(spec, parts[0]));
  EXPECT_EQ(SumsOf(results[2]), DefinedSums(spec, parts[2]));
  EXPECT_EQ(results[0].bytes_read, machine.stats().bytes_read);
}

TEST(ExpertEngineTest, AnUnreadableExpertFailsThePartsThatWantIt) {
  const ModelSpec spec = SmallSpec(kShape);
  std::vector<LayerWork> parts = GeneratedParts(spec, 2, 1);
  parts[0].assignments = {{6, {0, 3}, 0.5f}};
  parts[1].assignments = {{5, {0, 3}, 0.5f}};
  for (LayerWork& part : parts) part.assignment_end = {1};
  Machine machine(BestKernel(), 2, 8);
  machine.store->set_failure([](ExpertKey key) {
    return key.expert == 6 ? absl::DataLossError("expert 6 is short")
                           : absl::OkStatus();
  });
  const auto results = machine.RunParts(parts);
  EXPECT_EQ(results[0].status, absl::DataLossError("expert 6 is short"));
  ASSERT_TRUE(results[1].status.ok()) << results[1].status;
  EXPECT_EQ(SumsOf(results[1]), DefinedSums(spec, parts[1]));
}

TEST(ExpertEngineTest, ServesSeveralCallersAtOnce) {
  const ModelSpec spec = SmallSpec(kShape);
  Machine machine(BestKernel(), 2, 2);
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 3; ++caller) {
    callers.emplace_back([&, caller] {
      const LayerWork work = GeneratedWork(spec, 1 + caller, 5, caller);
      const std::vector<int64_t> want = DefinedSums(spec, work);
      for (int round = 0; round < 5; ++round) {
        const LayerResult result = machine.Run(work);
        ASSERT_TRUE(result.status.ok()) << result.status;
        EXPECT_EQ(SumsOf(result), want);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

}  // namespace
}  // namespace deltafin
