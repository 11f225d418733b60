#include "tests/unit/kernels/cuda/cuda_layer_case.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace deltafin {
namespace {

void Require(bool ok, const std::string& why) {
  if (ok) return;
  std::fprintf(stderr, "%s\n", why.c_str());
  std::abort();
}

// Different experts for each token.
void DrawRoutes(int num_experts, XorShift64& random, CudaLayerCase& c) {
  std::vector<int> order(num_experts);
  for (int e = 0; e < num_experts; ++e) order[e] = e;
  for (int t = 0; t < c.num_tokens; ++t) {
    for (int k = 0; k < c.top_k; ++k) {
      std::swap(order[k], order[k + random.Below(num_experts - k)]);
      c.routes.push_back({order[k], 0});
    }
  }
}

// The tokens of one expert with their weights.
struct ExpertTokens {
  std::vector<int> tokens;
  std::vector<float> weights;
};

ExpertTokens TokensOf(const CudaLayerCase& c, int expert) {
  ExpertTokens found;
  for (int t = 0; t < c.num_tokens; ++t) {
    for (int k = 0; k < c.top_k; ++k) {
      const CudaExpertRoute& route = c.routes[t * c.top_k + k];
      if (route.expert != expert) continue;
      found.tokens.push_back(t);
      found.weights.push_back(route.weight);
    }
  }
  return found;
}

size_t RunBytes(const CudaLayerCase& c, SliceRun run) {
  return c.shape.slice_offset(run.first + run.count) -
         c.shape.slice_offset(run.first);
}

// 64-byte aligned memory of a kernel.
struct Aligned {
  explicit Aligned(size_t size) : bytes(size + 64) {}
  uint8_t* get() {
    const auto at = reinterpret_cast<uintptr_t>(bytes.data());
    return bytes.data() + (64 - at % 64) % 64;
  }
  std::vector<uint8_t> bytes;
};

// One expert's share of the outcome.
void AddExpert(const KernelTarget& target, const CudaLayerCase& c, int expert,
               CudaLayerOutcome& outcome) {
  const ExpertTokens mine = TokensOf(c, expert);
  const int count = static_cast<int>(mine.tokens.size());
  const int latent = c.shape.latent_size;
  if (count == 0 || c.runs[expert].count == 0) return;
  std::vector<const float*> rows;
  std::vector<int64_t*> sums;
  for (const int t : mine.tokens) {
    rows.push_back(&c.x[size_t(t) * latent]);
    sums.push_back(&outcome.sums[size_t(t) * latent]);
  }
  Aligned prepared(target.expert.prepared_bytes(latent, count));
  int bad = -1;
  KernelStatus status =
      target.expert.prepare(rows.data(), latent, count, prepared.get(), &bad);
  if (status == KernelStatus::kOk) {
    Aligned slices(RunBytes(c, c.runs[expert]));
    PackSlices(c.shape, c.experts[expert].released(), c.runs[expert],
               slices.get());
    Aligned scratch(target.expert.scratch_bytes(c.shape, count));
    ExpertSliceArgs args;
    args.shape = c.shape;
    args.situ = c.situ;
    args.slices = slices.get();
    args.run = c.runs[expert];
    args.num_tokens = count;
    args.prepared = prepared.get();
    args.weights = mine.weights.data();
    args.sums = sums.data();
    args.scratch = scratch.get();
    status = target.expert.run_slices(args, &bad);
  }
  if (status == KernelStatus::kOk) return;
  CudaExpertResult& worst = outcome.result;
  const bool first = worst.status == KernelStatus::kOk;
  if (status == KernelStatus::kNotFinite) {
    const int token = mine.tokens[bad];
    if (worst.status != status || token < worst.token) {
      worst = {status, -1, token};
    }
  } else if (first) {
    worst = {status, expert, mine.tokens[bad]};
  }
}

}  // namespace

CudaLayerCase MakeLayerCase(ExpertKind kind, ExpertShape shape, int num_experts,
                            int top_k, int num_tokens, XorShift64* random) {
  CudaLayerCase c;
  c.shape = shape;
  c.top_k = top_k;
  c.num_tokens = num_tokens;
  c.experts.resize(num_experts);
  c.runs.assign(num_experts, {0, shape.num_slices()});
  for (ExpertCase& expert : c.experts) {
    expert.shape = shape;
    expert.num_tokens = 1;
    FillExpertCase(kind, random, &expert);
  }
  DrawRoutes(num_experts, *random, c);
  ExpertCase tokens;  // for its tokens and weights
  tokens.shape = {shape.latent_size, kMxfp4Group};
  tokens.num_tokens = num_tokens;
  FillExpertCase(kind, random, &tokens);
  c.x = tokens.x;
  for (CudaExpertRoute& route : c.routes) {
    route.weight = tokens.weights[random->Below(num_tokens)];
  }
  return c;
}

CudaLayerOutcome RunOnProcessor(const KernelTarget& target,
                                const CudaLayerCase& c) {
  CudaLayerOutcome outcome;
  outcome.sums.assign(size_t(c.num_tokens) * c.shape.latent_size, 0);
  for (int e = 0; e < c.num_experts(); ++e) AddExpert(target, c, e, outcome);
  return outcome;
}

CardLayer::CardLayer(const CudaLayerCase& c, int max_tokens) {
  std::string why;
  size_t size = 256;
  for (const SliceRun& run : c.runs) size += RunBytes(c, run) + 256;
  records_ = CudaMemory::Allocate(0, size, &why);
  Require(records_ != nullptr, why);
  experts_ = CudaExperts::Create(0,
                                 {c.shape, c.situ, c.num_experts(), c.top_k,
                                  std::max(max_tokens, c.num_tokens)},
                                 &why);
  Require(experts_ != nullptr, why);
  std::vector<CudaExpertRecord> records(c.experts.size());
  size_t offset = 0;
  for (int e = 0; e < c.num_experts(); ++e) {
    const SliceRun run = c.runs[e];
    if (run.count == 0) continue;
    std::vector<uint8_t> slices(RunBytes(c, run));
    PackSlices(c.shape, c.experts[e].released(), run, slices.data());
    Require(records_->CopyIn(offset, slices.data(), slices.size(), &why), why);
    records[e] = {records_->data() + offset, run};
    offset += (slices.size() + 15) / 16 * 16;
  }
  Require(experts_->SetRecords(records.data(), &why), why);
}

CudaLayerOutcome CardLayer::Run(const CudaLayerCase& c) {
  CudaLayerOutcome outcome;
  outcome.sums.assign(size_t(c.num_tokens) * c.shape.latent_size, -1);
  std::string why;
  CudaExpertCall call = {c.x.data(), c.routes.data(), c.num_tokens,
                         outcome.sums.data()};
  call.alone = c.alone;
  Require(experts_->Run(call, &outcome.result, &why), why);
  return outcome;
}

}  // namespace deltafin
