#include "expert_node/expert_engine.h"

#include <memory>

#include "common/base/clock.h"
#include "expert_node/work_plan.h"

namespace deltafin {

ExpertEngine::ExpertEngine(const KernelTarget& kernel, const SituParams& situ,
                           TieredStore& store, int num_threads)
    : kernel_(kernel),
      situ_(situ),
      store_(store),
      num_threads_(num_threads),
      threads_(num_threads, "expert-run") {}

LayerResult ExpertEngine::Run(const LayerWork& work,
                              const std::atomic<bool>& cancelled) {
  LayerResult result;
  MutexLock turn(turn_);
  const absl::Duration begin = SystemClock().Elapsed();
  LayerRun run(work, cancelled,
               {kernel_.expert, situ_, store_.shape(), num_threads_},
               workspace_);
  result.status = run.Allocate();
  if (!result.status.ok()) return result;
  // Slices are leased by the request whose turn it is, never by one that waits:
  // otherwise two could each hold room that the other needs.
  const std::unique_ptr<SliceLease> lease = store_.Acquire(run.plan().slices);
  Compute(run, *lease, result);
  result.bytes_read = lease->bytes_read();
  result.cache_hits = lease->hits();
  result.cache_misses = lease->misses();
  result.read = run.waited() / num_threads_;
  result.compute = SystemClock().Elapsed() - begin - result.read;
  return result;
}

void ExpertEngine::Compute(LayerRun& run, SliceLease& lease,
                           LayerResult& result) {
  threads_.ParallelFor(run.num_prepare_tasks(),
                       [&](int64_t task, int) { run.Prepare(task); });
  run.CheckPrepared();
  threads_.ParallelFor(lease.order().size(), [&](int64_t task, int worker) {
    run.RunUnit(lease, lease.order()[task], worker);
  });
  result.status = run.status();
  if (absl::IsOutOfRange(result.status)) {
    result.error_expert = run.error().place().expert;
    result.error_token = run.error().place().token;
  }
  if (!result.status.ok()) return;
  result.tokens = run.plan().row_tokens;
  result.slices_computed = run.plan().num_terms;
  const size_t row_bytes = sizeof(int64_t) * store_.shape().latent_size;
  result.sums.resize(result.tokens.size() * row_bytes);
  threads_.ParallelFor(result.tokens.size(), [&](int64_t row, int) {
    run.MergeRow(row, result.sums.data() + row * row_bytes);
  });
}

}  // namespace deltafin
