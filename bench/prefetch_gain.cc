// What reading ahead hides of a drive's time: experts of the full model's size
// on a throttled store, synthetic routes, the node's tier and the coordinator's
// gate. Tokens with and without hints alternate, on two tiers of their own.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "bench/synthetic_routes.h"
#include "common/base/check.h"
#include "coordinator/engine/read_ahead_gate.h"
#include "expert_node/storage/throttled_store.h"
#include "expert_node/storage/tiered_store.h"

namespace deltafin::bench {
namespace {

constexpr ExpertShape kShape = {3584, 3072};

struct Options {
  double rate = 4e9;     // of the drive
  double spine_ms = 20;  // of a layer, before its experts are known
  int layers = 4;
  int experts = 256;
  int top_k = 16;
  int resident = 128;  // experts that fit into memory
  int tokens = 8;
  std::vector<double> recalls{0, 0.3, 0.6, 0.9};
  std::vector<double> zipfs{0, 0.6};
};

// Takes no time: the throttle over it is the drive.
class BlankStore : public ExpertStore {
 public:
  const ExpertShape& shape() const override { return kShape; }
  // As records of this size.
  int slices_per_read() const override { return 4; }
  absl::StatusOr<uint64_t> Read(ExpertKey /*key*/, SliceRun run,
                                std::span<uint8_t* const> /*out*/,
                                absl::FunctionRef<void(int)> ready) override {
    for (int i = 0; i < run.count; ++i) ready(run.first + i);
    return kShape.slice_offset(run.first + run.count) -
           kShape.slice_offset(run.first);
  }
};

// A node, and the part of a coordinator that decides about hints.
class Node {
 public:
  Node(const Options& options, bool hints)
      : spine_(absl::Milliseconds(options.spine_ms)), hints_(hints) {
    auto drive = std::make_unique<ThrottledStore>(
        std::make_unique<BlankStore>(), options.rate);
    const size_t bytes =
        ExpertCache::SlotBytes(kShape.slice_offset(1)) * kShape.num_slices();
    auto tier = TieredStore::Create(
        std::move(drive),
        {bytes * options.resident, 4, 100.0 * options.layers});
    CHECK(tier.ok(), "no memory for the tier");
    tier_ = *std::move(tier);
  }

  void RunToken(const std::vector<SyntheticRoute>& layers) {
    const absl::Time begin = absl::Now();
    for (size_t layer = 0; layer < layers.size(); ++layer) {
      absl::SleepFor(spine_);
      const auto lease = tier_->Acquire(Slices(layer, layers[layer].wanted));
      if (hints_ && layer + 1 < layers.size() && gate_.open()) {
        Expect(layer + 1, layers[layer + 1].predicted);
      }
      for (const int index : lease->order()) {
        CHECK(lease->Wait(index).ok());
        lease->Release(index);
      }
      if (layer > 0) hinted_misses_ += lease->misses();
      const ExpectedSlicesStats stats = tier_->stats().expected;
      v1::LayerReply reply;
      reply.set_expected_used(stats.used);
      reply.set_expected_wasted(stats.wasted);
      gate_.Learn(reply);
    }
    seconds_ += absl::ToDoubleSeconds(absl::Now() - begin);
  }

  double seconds() const { return seconds_; }
  // Slices of layers about which there may be hints.
  uint64_t hinted_misses() const { return hinted_misses_; }
  ExpectedSlicesStats expected() const { return tier_->stats().expected; }

 private:
  static std::vector<SliceKey> Slices(size_t layer,
                                      const std::vector<int>& experts) {
    std::vector<SliceKey> keys;
    for (const int expert : experts) {
      for (int s = 0; s < kShape.num_slices(); ++s) {
        keys.push_back({{static_cast<int>(layer), expert}, s});
      }
    }
    return keys;
  }
  void Expect(size_t layer, const std::vector<int>& experts) {
    std::vector<ExpectedRun> runs;
    for (const int expert : experts) {
      runs.push_back(
          {{static_cast<int>(layer), expert}, {0, kShape.num_slices()}});
    }
    tier_->Expect(static_cast<int>(layer), runs);
  }

  const absl::Duration spine_;
  const bool hints_;
  std::unique_ptr<TieredStore> tier_;
  ReadAheadGate gate_;
  double seconds_ = 0;
  uint64_t hinted_misses_ = 0;
};

void Compare(const Options& options, double zipf, double recall) {
  SyntheticRoutes routes(
      {options.layers, options.experts, options.top_k, zipf, recall},
      /*seed=*/1);
  Node without(options, false);
  Node with(options, true);
  for (int token = 0; token < options.tokens; ++token) {
    const std::vector<SyntheticRoute> layers = routes.NextToken();
    Node& first = token % 2 == 0 ? without : with;
    Node& second = token % 2 == 0 ? with : without;
    first.RunToken(layers);
    second.RunToken(layers);
  }
  const double hinted_layers = options.tokens * (options.layers - 1);
  const ExpectedSlicesStats expected = with.expected();
  const double precision = static_cast<double>(expected.used) /
                           static_cast<double>(std::max<uint64_t>(
                               expected.used + expected.wasted, 1));
  const double miss_ms = 1e3 * static_cast<double>(without.hinted_misses()) *
                         static_cast<double>(kShape.slice_offset(1)) /
                         options.rate / hinted_layers;
  const double bound_ms =
      std::min(options.spine_ms * precision, recall * miss_ms);
  const double hidden_ms =
      1e3 * (without.seconds() - with.seconds()) / hinted_layers;
  std::printf("%5.1f %7.1f %10.4f %10.4f %+8.1f%% %10.2f %10.2f %8.2f %10.2f\n",
              zipf, recall, without.seconds() / options.tokens,
              with.seconds() / options.tokens,
              100 * (with.seconds() / without.seconds() - 1), hidden_ms,
              bound_ms, bound_ms > 0 ? hidden_ms / bound_ms : 0, precision);
  std::fflush(stdout);
}

int Main(int argc, char** argv) {
  CLI::App app("What reading ahead hides of a drive's time");
  Options options;
  app.add_option("--rate", options.rate, "Bytes a second of the drive");
  app.add_option("--spine-ms", options.spine_ms,
                 "Time of a layer before its experts are known");
  app.add_option("--layers", options.layers)->check(CLI::Range(2, 1000));
  app.add_option("--experts", options.experts, "Of a layer")
      ->check(CLI::Range(64, 10000));
  app.add_option("--resident", options.resident, "Experts that memory holds")
      ->check(CLI::Range(16, 10000));
  app.add_option("--tokens", options.tokens)->check(CLI::Range(1, 1000000));
  app.add_option("--recall", options.recalls, "Of the predictions");
  app.add_option("--zipf", options.zipfs, "Skew of the routes");
  CLI11_PARSE(app, argc, argv);
  std::printf(
      "%d layers of %d experts, %d used, %d in memory; %.1f GB/s; %.1f ms of "
      "spine a layer\nhidden, bound: ms a layer that has hints; bound: the "
      "lesser of idle time x precision and recall x misses\n\n zipf  recall    "
      " without       with    change     hidden      bound   of it  "
      "precision\n",
      options.layers, options.experts, options.top_k, options.resident,
      options.rate / 1e9, options.spine_ms);
  for (const double zipf : options.zipfs) {
    for (const double recall : options.recalls) Compare(options, zipf, recall);
  }
  return 0;
}

}  // namespace
}  // namespace deltafin::bench

int main(int argc, char** argv) { return deltafin::bench::Main(argc, argv); }
