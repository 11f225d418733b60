// What a tier of experts in a card's memory gives: hit rate and time of a layer
// against its size, over the routes of a recorded text, with experts of the
// full model's size that are all in RAM; and whether a miss costs more than its
// transfer, against a plain copy from pinned memory in the same run, with and
// without the processor's help.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "bench/measurement.h"
#include "bench/recorded_routes.h"
#include "common/base/thread_affinity.h"
#include "expert_node/device/cuda_expert_card.h"
#include "expert_node/expert_engine.h"

namespace deltafin::bench {
namespace {

constexpr ExpertShape kShape = {3584, 3072};
constexpr int kSlices = kShape.num_slices();
constexpr size_t kSliceBytes = kShape.slice_offset(1);
constexpr double kHalfLifeTokens = 100;  // as a node's

struct Options {
  std::string model = "deploy/models/k3-nano";
  std::string text = "deploy/models/k3-nano/eval/validation.txt";
  std::vector<int> cards{0};
  int tokens = 600;
  int batch = 1;
  bool processor = true;  // computes, too
  std::vector<double> shares{1, 0.8, 0.6, 0.4, 0.2, 0.1};
};

void Require(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "vram_tier: %s\n",
               std::string(status.message()).c_str());
  std::exit(1);
}

double Now() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return 1e6 * std::chrono::duration<double>(now).count();
}

// The same random bytes for each slice, with scales that no sum overflows by.
class OneSliceStore : public ExpertStore {
 public:
  OneSliceStore() : slice_(kSliceBytes) {
    std::mt19937_64 random(1);
    for (uint8_t& byte : slice_) {
      byte = static_cast<uint8_t>(112 + random() % 8);
    }
  }
  const ExpertShape& shape() const override { return kShape; }
  absl::StatusOr<uint64_t> Read(ExpertKey, SliceRun run,
                                std::span<uint8_t* const> out,
                                absl::FunctionRef<void(int)> ready) override {
    for (int i = 0; i < run.count; ++i) {
      std::memcpy(out[i], slice_.data(), kSliceBytes);
      ready(run.first + i);
    }
    return run.count * kSliceBytes;
  }

 private:
  std::vector<uint8_t> slice_;
};

// Layers as a node gets them, from the routes of `batch` tokens each.
std::vector<LayerWork> WorksOf(const RecordedRoutes& routes, int batch) {
  std::vector<LayerWork> works;
  const int64_t steps = routes.num_tokens() / batch;
  for (int64_t step = 0; step < steps; ++step) {
    for (int layer = 0; layer < routes.num_layers; ++layer) {
      LayerWork work;
      work.layer = layer;
      work.num_tokens = batch;
      work.latent.assign(size_t(batch) * kShape.latent_size, 0.25f);
      for (int t = 0; t < batch; ++t) {
        const size_t at =
            ((step * batch + t) * routes.num_layers + layer) * routes.top_k;
        for (int k = 0; k < routes.top_k; ++k) {
          work.assignments.push_back(
              {routes.experts[at + k], {0, kSlices}, 0x1p-20f});
        }
        work.assignment_end.push_back(
            static_cast<int>(work.assignments.size()));
      }
      works.push_back(std::move(work));
    }
  }
  return works;
}

class TierBench {
 public:
  TierBench(const Options& options, const RecordedRoutes& routes)
      : options_(options),
        routes_(routes),
        num_threads_(static_cast<int>(AllowedCpus().size())),
        works_(WorksOf(routes, options.batch)) {
    const size_t ram = all_slices() * ExpertCache::SlotBytes(kSliceBytes);
    auto store = TieredStore::Create(std::make_unique<OneSliceStore>(),
                                     {ram, num_threads_, half_life()});
    Require(store.status());
    store_ = *std::move(store);
    FillRam();
  }

  size_t all_slices() const {
    return size_t(routes_.num_layers) * routes_.num_experts * kSlices;
  }

  void MeasureCopy() {
    const CardLimits limits = Limits();
    auto card = OpenCudaExpertCard(options_.cards[0], limits);
    Require(card.status());
    std::printf("%s, %d threads\n", (*card)->name().c_str(), num_threads_);
    const auto memory = (*card)->Allocate(limits.num_stages * kSliceBytes);
    Require(memory.status());
    std::vector<double> times;
    for (int round = 0; round < 20; ++round) {
      const double begin = Now();
      for (int i = 0; i < limits.num_stages; ++i) {
        Require((*card)->CopyIn(i, (*card)->stage(i), *memory + i * kSliceBytes,
                                kSliceBytes));
      }
      Require((*card)->Wait());
      times.push_back((Now() - begin) / limits.num_stages);
    }
    copy_us_ = Median(times);
    std::printf("a slice from pinned memory: %.1f us, %.1f GB/s\n", copy_us_,
                1e-3 * kSliceBytes / copy_us_);
  }

  void MeasureProcessor() {
    ExpertEngine engine(BestKernel(), SituParams(), *store_, num_threads_);
    const size_t count = std::min<size_t>(200, works_.size());
    const double begin = Now();
    for (size_t i = 0; i < count; ++i) Run(engine, works_[i]);
    std::printf("the processor (%s): %.0f us a layer\n", BestKernel().name,
                (Now() - begin) / static_cast<double>(count));
  }

  void PrintHead() const {
    std::printf("%6s %8s %9s %10s %9s %9s %11s %9s\n", "share", "GB",
                "hit rate", "us a layer", "misses", "computed", "transfer us",
                "of it");
  }

  // The first half of the works warms the tier. One line, and times by how many
  // slices were missing.
  void MeasureShare(double share) {
    CardSetOptions options;
    options.cards = options_.cards;
    options.open = OpenCudaExpertCard;
    options.limits = Limits();
    options.tier.most_slots = static_cast<size_t>(
        std::llround(share * static_cast<double>(all_slices())));
    options.tier.heat_half_life = half_life();
    options.pinner = CudaHostPinner(options_.cards[0]);
    options.processor_computes = options_.processor;
    CardSet cards(options, *store_);
    if (cards.stats().num_failed > 0) {
      Require(absl::UnavailableError("not all cards can be used"));
    }
    ExpertEngine engine(BestKernel(), SituParams(), *store_, num_threads_,
                        &cards);
    RequireSameBits(engine);
    size_t next = 0;
    while (next < works_.size() / 2) Run(engine, works_[next++]);
    cards.WaitUntilPinned();
    const CardTierStats before = cards.stats().tiers;
    double all = 0;
    CardTierStats last = before;
    for (; next < works_.size(); ++next) {
      const double begin = Now();
      Run(engine, works_[next]);
      const double time = Now() - begin;
      all += time;
      const CardTierStats now = cards.stats().tiers;
      times_[static_cast<int>(now.misses - last.misses)].push_back(time);
      last = now;
    }
    PrintShare(share, all, before, last);
  }

  // Over all shares: a layer with misses against one with none.
  void PrintMisses() const {
    const auto none = times_.find(0);
    if (none == times_.end()) return;
    const double base = Median(none->second);
    std::printf("\n%8s %8s %9s %12s %9s\n", "missing", "layers", "us",
                "transfer us", "beyond 0");
    for (const auto& [missing, times] : times_) {
      if (times.size() < 10) continue;
      const double time = Median(times);
      std::printf("%8d %8zu %9.1f %12.1f %9.1f\n", missing, times.size(), time,
                  missing * transfer_us(), time - base);
    }
  }

 private:
  // Of a slice where each card has its own link.
  double transfer_us() const {
    return copy_us_ / static_cast<double>(options_.cards.size());
  }
  double half_life() const { return kHalfLifeTokens * routes_.num_layers; }

  CardLimits Limits() const {
    CardLimits limits;
    limits.shape = kShape;
    limits.max_rows = options_.batch;
    limits.max_routes = routes_.top_k * kSlices;
    limits.num_layer_slices = routes_.num_experts * kSlices;
    limits.num_stages = 3;  // as a node's
    return limits;
  }

  void FillRam() {
    for (int layer = 0; layer < routes_.num_layers; ++layer) {
      std::vector<SliceKey> wanted;
      for (int i = 0; i < routes_.num_experts * kSlices; ++i) {
        wanted.push_back({{layer, i / kSlices}, i % kSlices});
      }
      const auto lease = store_->Acquire(wanted);
      for (const int index : lease->order()) {
        Require(lease->Wait(index).status());
      }
    }
  }

  void RequireSameBits(ExpertEngine& engine) {
    ExpertEngine processor(BestKernel(), SituParams(), *store_, num_threads_);
    for (size_t i = 0; i < std::min<size_t>(24, works_.size()); ++i) {
      if (Run(engine, works_[i]) != Run(processor, works_[i])) {
        Require(absl::InternalError("the card's sums are others"));
      }
    }
  }

  // Its sums.
  static std::string Run(ExpertEngine& engine, const LayerWork& work) {
    const LayerWork* const parts[] = {&work};
    LayerResult result = engine.Run(parts, std::atomic<bool>(false))[0];
    Require(result.status);
    return std::move(result.sums);
  }

  void PrintShare(double share, double all_us, const CardTierStats& before,
                  const CardTierStats& after) {
    const auto layers = static_cast<double>(works_.size() - works_.size() / 2);
    const auto misses = static_cast<double>(after.misses - before.misses);
    const auto hits = static_cast<double>(after.hits - before.hits);
    const double time = all_us / layers;
    const double transfer = misses / layers * transfer_us();
    if (misses < 0.1 * layers) all_hits_us_ = time;
    const auto computed = static_cast<double>(after.computed - before.computed);
    std::printf("%6.2f %8.2f %9.3f %10.1f %9.2f %9.2f %11.1f", share,
                1e-9 * static_cast<double>(after.capacity_bytes),
                hits / (hits + misses), time, misses / layers,
                computed / layers, transfer);
    if (misses > 0 && all_hits_us_ > 0) {
      std::printf(" %9.2f", (time - all_hits_us_) / transfer);
    }
    std::puts("");
  }

  const Options& options_;
  const RecordedRoutes& routes_;
  const int num_threads_;
  const std::vector<LayerWork> works_;
  std::unique_ptr<TieredStore> store_;
  double copy_us_ = 0;      // of a slice
  double all_hits_us_ = 0;  // a layer, where a share had no misses
  std::map<int, std::vector<double>> times_;  // by slices that were missing
};

int Main(int argc, char** argv) {
  CLI::App app(
      "Hit rate and time of a layer against the memory of a card for experts, "
      "over the routes of\na recorded text; experts of 17,547,264 bytes, all "
      "in RAM. \"computed\": misses that the\nprocessor computed. \"of it\": "
      "time "
      "beyond that of a layer without misses, as a part of\nwhat the plain "
      "transfer of all misses takes.");
  Options options;
  app.add_option("--model", options.model, "Model whose routes are recorded");
  app.add_option("--text", options.text, "Text whose routes are recorded");
  app.add_option("--cards", options.cards, "Numbers of the cards")
      ->delimiter(',');
  app.add_option("--tokens", options.tokens, "Tokens; half of them warm up")
      ->check(CLI::Range(4, 1 << 20));
  app.add_option("--batch", options.batch, "Tokens of a step")
      ->check(CLI::Range(1, 128));
  app.add_flag("--processor,!--no-processor", options.processor,
               "Let the processor compute what it has sooner than the card");
  app.add_option("--shares", options.shares,
                 "Shares of all experts that the card holds; 1 first")
      ->delimiter(',')
      ->check(CLI::Range(0.001, 1.0));
  CLI11_PARSE(app, argc, argv);
  const auto routes =
      RecordRoutes(options.model, options.text, 1024, options.tokens);
  Require(routes.status());
  TierBench bench(options, *routes);
  bench.MeasureCopy();
  bench.MeasureProcessor();
  std::printf(
      "%lld tokens of %s, %d in a step; %d layers of %d experts, %d for each "
      "token; routes of this\nmodel say nothing about K3's\n",
      static_cast<long long>(routes->num_tokens()), options.text.c_str(),
      options.batch, routes->num_layers, routes->num_experts, routes->top_k);
  bench.PrintHead();
  for (const double share : options.shares) bench.MeasureShare(share);
  bench.PrintMisses();
  return 0;
}

}  // namespace
}  // namespace deltafin::bench

int main(int argc, char** argv) { return deltafin::bench::Main(argc, argv); }
