#include "tests/unit/kernels/expert_runner.h"

#include <algorithm>
#include <memory>
#include <new>
#include <numeric>

namespace deltafin {
namespace {

constexpr std::align_val_t kCacheLine{64};

// Exactly `size` bytes on a cache line, so that a checked build finds any
// access beyond them.
class Bytes {
 public:
  explicit Bytes(size_t size)
      : p_(static_cast<uint8_t*>(::operator new(size, kCacheLine))) {}
  uint8_t* get() const { return p_.get(); }

 private:
  struct Delete {
    void operator()(uint8_t* p) const { ::operator delete(p, kCacheLine); }
  };
  std::unique_ptr<uint8_t, Delete> p_;
};

}  // namespace

RunResult RunSlices(const KernelTarget& target, const ExpertCase& c,
                    int first_token, int num_tokens, SliceRun run,
                    int64_t initial_sum) {
  const int latent = c.shape.latent_size;
  RunResult result;
  result.sums.assign(size_t(num_tokens) * latent, initial_sum);
  std::vector<const float*> rows(num_tokens);
  std::vector<int64_t*> sums(num_tokens);
  for (int t = 0; t < num_tokens; ++t) {
    rows[t] = &c.x[size_t(first_token + t) * latent];
    sums[t] = &result.sums[size_t(t) * latent];
  }
  const ExpertKernel& kernel = target.expert;
  const Bytes prepared(kernel.prepared_bytes(latent, num_tokens));
  result.status = kernel.prepare(rows.data(), latent, num_tokens,
                                 prepared.get(), &result.bad_token);
  if (result.status != KernelStatus::kOk) return result;

  const Bytes slices(c.shape.slice_offset(run.first + run.count) -
                     c.shape.slice_offset(run.first));
  PackSlices(c.shape, c.released(), run, slices.get());
  const Bytes scratch(kernel.scratch_bytes(c.shape, num_tokens));
  ExpertSliceArgs args;
  args.shape = c.shape;
  args.slices = slices.get();
  args.run = run;
  args.num_tokens = num_tokens;
  args.prepared = prepared.get();
  args.weights = &c.weights[first_token];
  args.sums = sums.data();
  args.scratch = scratch.get();
  result.status = kernel.run_slices(args, &result.bad_token);
  return result;
}

RunResult RunCut(const KernelTarget& target, const ExpertCase& c,
                 int num_tokens, int num_runs, XorShift64* random) {
  std::vector<int> order(num_runs);
  std::iota(order.begin(), order.end(), 0);
  for (int i = num_runs - 1; i > 0; --i) {
    std::swap(order[i], order[random->Below(i + 1)]);
  }
  const int slices = c.shape.num_slices();
  RunResult total;
  total.sums.assign(size_t(num_tokens) * c.shape.latent_size, 0);
  for (const int i : order) {
    const int first = slices * i / num_runs;
    const int end = slices * (i + 1) / num_runs;
    const RunResult part =
        RunSlices(target, c, 0, num_tokens, {first, end - first});
    total.status = Worse(total.status, part.status);
    if (part.status != KernelStatus::kOk) {
      total.bad_token = total.bad_token < 0
                            ? part.bad_token
                            : std::min(total.bad_token, part.bad_token);
    }
    for (size_t k = 0; k < total.sums.size(); ++k) {
      total.sums[k] = static_cast<int64_t>(
          static_cast<uint64_t>(total.sums[k]) + part.sums[k]);
    }
  }
  return total;
}

}  // namespace deltafin
