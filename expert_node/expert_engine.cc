#include "expert_node/expert_engine.h"

#include <memory>
#include <utility>

#include "common/base/clock.h"
#include "expert_node/work_plan.h"

namespace deltafin {
namespace {

int64_t NumTerms(const LayerWork& part) {
  int64_t terms = 0;
  for (const Assignment& a : part.assignments) terms += a.run.count;
  return terms;
}

// Gives each part its share of a run's cost.
void ShareCost(const LayerResult& cost, std::span<const LayerWork* const> parts,
               std::vector<LayerResult>& results) {
  int64_t all_terms = 0;
  for (const LayerWork* part : parts) all_terms += NumTerms(*part);
  for (size_t p = 0; p < parts.size(); ++p) {
    const double share =
        all_terms == 0 ? 1.0 / parts.size()
                       : static_cast<double>(NumTerms(*parts[p])) / all_terms;
    results[p].read = cost.read * share;
    results[p].compute = cost.compute * share;
  }
  results[0].bytes_read = cost.bytes_read;
  results[0].cache_hits = cost.cache_hits;
  results[0].cache_misses = cost.cache_misses;
  results[0].expected = cost.expected;
}

void AddCost(const LayerResult& cost, LayerResult& result) {
  result.read += cost.read;
  result.compute += cost.compute;
  result.bytes_read += cost.bytes_read;
  result.cache_hits += cost.cache_hits;
  result.cache_misses += cost.cache_misses;
  result.expected = cost.expected;
}

}  // namespace

ExpertEngine::ExpertEngine(const KernelTarget& kernel, const SituParams& situ,
                           TieredStore& store, int num_threads, CardSet* cards)
    : kernel_(kernel),
      situ_(situ),
      store_(store),
      cards_(cards),
      num_threads_(num_threads),
      threads_(num_threads, "expert-run") {}

void ExpertEngine::Expect(int layer, std::span<const ExpectedRun> runs) {
  if (cards_ == nullptr) return store_.Expect(layer, runs);
  store_.Expect(layer, cards_->Lacking(runs));
}

std::vector<LayerResult> ExpertEngine::Run(Parts parts,
                                           const std::atomic<bool>& cancelled) {
  MutexLock turn(turn_);
  std::vector<LayerResult> together = RunTogether(parts, cancelled);
  const absl::Status& status = together[0].status;
  if (parts.size() == 1 || status.ok() || absl::IsCancelled(status)) {
    return together;
  }
  // It may be the error of one part, which is no concern of the others.
  std::vector<LayerResult> apart = RunApart(parts, cancelled);
  for (size_t p = 0; p < parts.size(); ++p) AddCost(together[p], apart[p]);
  return apart;
}

std::vector<LayerResult> ExpertEngine::RunApart(
    Parts parts, const std::atomic<bool>& cancelled) {
  std::vector<LayerResult> results;
  for (size_t p = 0; p < parts.size(); ++p) {
    results.push_back(
        std::move(RunTogether(parts.subspan(p, 1), cancelled).front()));
  }
  return results;
}

std::vector<LayerResult> ExpertEngine::RunTogether(
    Parts parts, const std::atomic<bool>& cancelled) {
  const absl::Duration begin = SystemClock().Elapsed();
  const MergedWork work(parts);
  LayerRun run(work, cancelled,
               {kernel_.expert, situ_, store_.shape(), num_threads_},
               workspace_);
  LayerResult cost;
  absl::Status status;
  const bool on_cards = ComputeOnCards(work, run, cost, &status);
  if (!on_cards) status = Compute(run, cost);
  std::vector<LayerResult> results(parts.size());
  for (LayerResult& result : results) result.status = status;
  if (status.ok()) {
    TakeSums(
        work, run.plan(),
        [&](int row, char* out) {
          if (!on_cards) return run.MergeRow(row, out);
          cards_->MergeRow(row, out);
          run.AddRow(row, out);
        },
        results);
    for (size_t p = 0; p < parts.size(); ++p) {
      results[p].slices_computed = NumTerms(*parts[p]);
    }
  } else if (absl::IsOutOfRange(status)) {
    results[0].error_expert = run.error().place().expert;
    results[0].error_token = run.error().place().token;
  }
  cost.read += run.waited() / num_threads_;
  cost.compute = SystemClock().Elapsed() - begin - cost.read;
  ShareCost(cost, parts, results);
  return results;
}

bool ExpertEngine::ComputeOnCards(const MergedWork& work, LayerRun& run,
                                  LayerResult& cost, absl::Status* status) {
  if (cards_ == nullptr || !cards_->any() || run.StopIfCancelled()) {
    return false;
  }
  const CardOutcome outcome = cards_->Run({work, run, threads_});
  cost.read = outcome.waited / num_threads_;
  cost.bytes_read = outcome.bytes_read;
  cost.cache_hits = outcome.hits;
  cost.cache_misses = outcome.misses;
  cost.expected = store_.stats().expected;
  *status = outcome.status;
  if (!outcome.done) run.StartOver();
  return outcome.done;
}

absl::Status ExpertEngine::Compute(LayerRun& run, LayerResult& cost) {
  if (run.StopIfCancelled()) return run.status();
  if (absl::Status status = run.Allocate(); !status.ok()) return status;
  // Slices are leased by the run whose turn it is, never by one that waits:
  // otherwise two could each hold room that the other needs.
  const std::unique_ptr<SliceLease> lease = store_.Acquire(run.plan().slices);
  threads_.ParallelFor(run.num_prepare_tasks(),
                       [&](int64_t task, int) { run.Prepare(task); });
  run.CheckPrepared();
  threads_.ParallelFor(lease->order().size(), [&](int64_t task, int worker) {
    run.RunUnit(*lease, lease->order()[task], worker);
  });
  cost.bytes_read += lease->bytes_read();
  cost.cache_hits += lease->hits();
  cost.cache_misses += lease->misses();
  cost.expected = store_.stats().expected;
  return run.status();
}

// The rows of a part lie one after the other, in the order of its tokens.
void ExpertEngine::TakeSums(const MergedWork& work, const WorkPlan& plan,
                            MergeRow merge, std::vector<LayerResult>& results) {
  const std::vector<int>& row_tokens = plan.row_tokens;
  const size_t row_bytes = sizeof(int64_t) * store_.shape().latent_size;
  std::vector<char*> out;  // [rows]
  for (int part = 0; part < work.num_parts(); ++part) {
    LayerResult& result = results[part];
    for (size_t row = out.size(); row < row_tokens.size() &&
                                  row_tokens[row] < work.first_token(part + 1);
         ++row) {
      result.tokens.push_back(row_tokens[row] - work.first_token(part));
    }
    result.sums.resize(result.tokens.size() * row_bytes);
    for (size_t row = 0; row < result.tokens.size(); ++row) {
      out.push_back(result.sums.data() + row * row_bytes);
    }
  }
  threads_.ParallelFor(out.size(),
                       [&](int64_t row, int) { merge(row, out[row]); });
}

}  // namespace deltafin
