// What copying in the background costs a running token: time of layers of
// experts without and with it, for several budgets, against the bound that the
// budget means.

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "bench/expert_layers.h"
#include "bench/flags.h"
#include "bench/rebalance_nodes.h"
#include "bench/scaling_nodes.h"
#include "common/base/check.h"
#include "common/base/log.h"

namespace deltafin::bench {
namespace {

constexpr char kHelp[] =
    R"(What copying in the background costs a running token.

  --read-rate MB  megabytes a second that each node's disk moves (default 200)
  --budgets LIST  copy budgets in percent of that rate (default 5,10,20);
                  0: none is set
  --takers N      nodes that hold nothing yet and copy (default 1); all copy
                  from one node that holds everything
  --layers N      layers of a sample (default 3)
  --rounds N      rounds of four samples for each budget (default 1)
  --threads N     compute threads of each node (default 1)
  --folder DIR    where what is copied is written, at most 128 MiB a taker
                  (default: a new folder in the folder for temporary files)
  --json          one object a line

Every node is a process that serves its part of layers of 16 experts of 17.5 MB.
A coordinator tells the takers what they lack, they copy it from the giver,
check it and write it to files, as nodes of a cluster do. Reads for layers,
reads for other nodes and writes of what was copied share one disk a node. A
round is four samples, without copies, with, with, without, so that what drifts
does not count.

A disk that moves R bytes a second and B of them for copies has R - B left for
layers: no node is slower than R / (R - B) times, and a layer is as late as its
slowest node. That is the bound; "of bytes" is the same of the bytes that were
really moved, by the giver or a taker, whichever is more. Beyond the bound a sample may meet a piece of a copy
more than its share (4 slices), and the machine's own noise: what the samples
without copies differ by.
)";

struct Options {
  int read_rate_mb = 200;
  std::vector<int> budgets = {5, 10, 20};
  int takers = 1;
  int layers = 3;
  int rounds = 1;
  int threads = 1;
  std::string folder;
  bool json = false;

  double read_rate() const { return 1e6 * read_rate_mb; }
};

// Until it is so; the cluster is broken where that takes long.
template <typename Condition>
void WaitFor(const char* what, Condition is_so) {
  const absl::Time deadline = absl::Now() + absl::Minutes(1);
  while (!is_so()) {
    CHECK(absl::Now() < deadline, what);
    absl::SleepFor(absl::Milliseconds(1));
  }
}

class Cluster {
 public:
  explicit Cluster(const Options& options)
      : num_takers_(options.takers), board_(RebalanceBoard::Make()) {
    RebalanceSetup setup;
    setup.folder = options.folder;
    setup.read_rate = options.read_rate();
    setup.threads = options.threads;
    coordinator_ = RebalanceCoordinator();
    setup.coordinator_port = coordinator_->port();
    nodes_.push_back(GivingNode(setup, board_));
    for (int i = 0; i < num_takers_; ++i) {
      nodes_.push_back(TakingNode(setup, i, board_));
    }
  }

  const std::vector<std::unique_ptr<Child>>& nodes() const { return nodes_; }

  // Returns once every taker has begun to copy within the budget.
  void BeginCopies(int64_t budget) {
    std::vector<uint64_t> before;
    for (int i = 0; i < num_takers_; ++i) {
      before.push_back(board_.takers[i].copied_bytes);
    }
    board_.budget = budget;
    WaitFor("nobody copies", [&] {
      for (int i = 0; i < num_takers_; ++i) {
        if (board_.takers[i].copied_bytes == before[i]) return false;
      }
      return true;
    });
  }
  // Returns once nothing is copied any more.
  void EndCopies() {
    board_.budget = RebalanceBoard::kNoCopies;
    WaitFor("copies do not end", [&] {
      return std::none_of(
          board_.takers, board_.takers + num_takers_,
          [](const auto& taker) { return taker.is_copying.load(); });
    });
  }

  // Of all takers, and by the node that gives: what it read for them.
  uint64_t copied_bytes() const {
    uint64_t bytes = 0;
    for (int i = 0; i < num_takers_; ++i) {
      bytes += board_.takers[i].copied_bytes;
    }
    return bytes;
  }
  uint64_t given_bytes() const { return board_.given_bytes; }

 private:
  const int num_takers_;
  RebalanceBoard& board_;
  std::unique_ptr<Child> coordinator_;
  std::vector<std::unique_ptr<Child>> nodes_;  // the giver first
};

struct Sample {
  double seconds_per_layer = 0;
  double taken = 0;  // bytes a second, of the mean taker
  double given = 0;
};

struct Result {
  double budget = 0;  // bytes a second; 0: none
  std::vector<Sample> without;
  std::vector<Sample> with;

  static double Mean(const std::vector<Sample>& samples, double Sample::*of) {
    double sum = 0;
    for (const Sample& sample : samples) sum += sample.*of;
    return sum / static_cast<double>(samples.size());
  }
  double ratio() const {
    return Mean(with, &Sample::seconds_per_layer) /
           Mean(without, &Sample::seconds_per_layer);
  }
  // What a sample without copies differs from their mean at most.
  double noise() const {
    const double mean = Mean(without, &Sample::seconds_per_layer);
    double most = 0;
    for (const Sample& sample : without) {
      most = std::max(most, std::abs(sample.seconds_per_layer / mean - 1));
    }
    return most;
  }
};

class Bench {
 public:
  Bench(const Options& options, Cluster& cluster)
      : options_(options), cluster_(cluster) {
    placement_.num_slices = FullExperts().expert_shape().num_slices();
    layers_ = std::make_unique<ExpertLayers>(
        kScalingDigest, placement_,
        ScalingMembers(cluster.nodes(),
                       std::vector<double>(cluster.nodes().size(), 1),
                       placement_));
    Take();  // to warm up
  }

  Result Measure(double budget) {
    Result result;
    result.budget = budget;
    for (int round = 0; round < options_.rounds; ++round) {
      result.without.push_back(Take());
      cluster_.BeginCopies(std::llround(budget));
      result.with.push_back(Take());
      result.with.push_back(Take());
      cluster_.EndCopies();
      result.without.push_back(Take());
    }
    return result;
  }

 private:
  Sample Take() {
    const double copied = static_cast<double>(cluster_.copied_bytes());
    const double given = static_cast<double>(cluster_.given_bytes());
    double seconds = 0;
    for (int i = 0; i < options_.layers; ++i) {
      seconds += layers_->Time(Routes(), i, &seed_);
    }
    Sample sample;
    sample.seconds_per_layer = seconds / options_.layers;
    sample.taken = (static_cast<double>(cluster_.copied_bytes()) - copied) /
                   seconds / options_.takers;
    sample.given =
        (static_cast<double>(cluster_.given_bytes()) - given) / seconds;
    return sample;
  }

  const Options& options_;
  Cluster& cluster_;
  PlacementOptions placement_;
  std::unique_ptr<ExpertLayers> layers_;
  uint64_t seed_ = 1;
};

// Of one piece that comes at the worst time.
double PieceTime(const Options& options) {
  constexpr double kPieceSlices = 4;
  return kPieceSlices * static_cast<double>(Routes().slice_bytes) /
         options.read_rate();
}

// How many times slower a disk is that moves so much besides.
double SlowedBy(double bytes_per_second, const Options& options) {
  return options.read_rate() / (options.read_rate() - bytes_per_second);
}

void Print(const Options& options, const Result& result) {
  const double without =
      Result::Mean(result.without, &Sample::seconds_per_layer);
  const double with = Result::Mean(result.with, &Sample::seconds_per_layer);
  const double taken = Result::Mean(result.with, &Sample::taken);
  const double given = Result::Mean(result.with, &Sample::given);
  const double of_bytes = SlowedBy(std::max(taken, given), options);
  const double bound = SlowedBy(result.budget, options);
  const double tolerance =
      result.noise() + PieceTime(options) / (options.layers * without);
  const bool has_bound = result.budget > 0;
  const bool is_within = result.ratio() <= bound + tolerance;
  if (options.json) {
    std::printf(
        "{\"read_rate\": %.0f, \"takers\": %d, \"budget\": %.0f, "
        "\"taken\": %.0f, \"given\": %.0f, \"without_ms\": %.2f, "
        "\"with_ms\": %.2f, \"ratio\": %.4f, \"of_bytes\": %.4f, "
        "\"bound\": %.4f, \"tolerance\": %.4f, \"within\": %s}\n",
        options.read_rate(), options.takers, result.budget, taken, given,
        1e3 * without, 1e3 * with, result.ratio(), of_bytes, bound, tolerance,
        has_bound ? (is_within ? "true" : "false") : "null");
  } else {
    std::printf("%9.1f %10.1f %10.1f %10.1f %9.1f %7.3f %9.3f ",
                1e-6 * result.budget, 1e-6 * taken, 1e-6 * given, 1e3 * without,
                1e3 * with, result.ratio(), of_bytes);
    if (has_bound) {
      std::printf("%7.3f %9.3f  %s\n", bound, tolerance,
                  is_within ? "within" : "BEYOND");
    } else {
      std::printf("  (no budget)\n");
    }
  }
  std::fflush(stdout);
}

Options ParseOptions(int argc, char** argv) {
  Options options;
  Flags flags("rebalance_cost", kHelp);
  flags.AddNumber("--read-rate", options.read_rate_mb);
  flags.AddNumbers("--budgets", options.budgets, 0, 99);
  flags.AddNumber("--takers", options.takers, 1, RebalanceBoard::kMaxTakers);
  flags.AddNumber("--layers", options.layers, 1, Routes().num_layers);
  flags.AddNumber("--rounds", options.rounds);
  flags.AddNumber("--threads", options.threads);
  flags.AddText("--folder", options.folder);
  flags.AddSwitch("--json", options.json);
  flags.Parse(argc, argv);
  return options;
}

void RunAll(const Options& options) {
  Cluster cluster(options);
  Bench bench(options, cluster);
  if (!options.json) {
    std::puts(
        "   budget   taken by   given by  ms a layer\n"
        "     MB/s  each MB/s   one MB/s    without      with   ratio  of "
        "bytes "
        "  bound tolerance");
  }
  for (const int percent : options.budgets) {
    Print(options, bench.Measure(0.01 * percent * options.read_rate()));
  }
}

}  // namespace
}  // namespace deltafin::bench

int main(int argc, char** argv) {
  using namespace deltafin;
  InitLogging("rebalance_cost");
  CHECK_OK(SetLogLevel("warn"));
  bench::Options options = bench::ParseOptions(argc, argv);
  const bool is_own_folder = options.folder.empty();
  if (is_own_folder) {
    options.folder = std::filesystem::temp_directory_path() /
                     ("rebalance_cost." + std::to_string(getpid()));
  }
  bench::RunAll(options);
  if (is_own_folder) std::filesystem::remove_all(options.folder);
}
