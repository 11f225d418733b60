// Times the routed-expert kernel on experts of the full model's size, from
// memory, against a streaming read of the same bytes in the same run.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "bench/chosen_kernels.h"
#include "bench/flags.h"
#include "bench/measurement.h"
#include "bench/sample_record.h"
#include "kernels/expert_tiles.h"
#include "kernels/kernel_registry.h"

namespace deltafin::bench {
namespace {

constexpr ExpertShape kShape = kRecordShape;
constexpr double kMacsPerToken = 3.0 * 3584 * 3072;
constexpr int kMaxTokens = 512;

constexpr char kHelp[] =
    "usage: expert_kernel [--kernel NAME] [--threads 1,2] "
    "[--tokens 1,2,4,8,32]\n"
    "                     [--rounds N] [--experts N] [--json]\n"
    "Experts of 17,547,264 bytes, rotating over --experts of them (default "
    "64, more than\n"
    "the last-level cache). Each sample is preceded by a streaming read of "
    "the same bytes\n"
    "on the same threads; the ratio is the median over rounds of read time to "
    "kernel time.\n"
    "Samples whose threads lost their core are dropped where others remain.\n";

struct Options {
  std::string kernel;  // empty: every supported one but the reference
  std::vector<int> threads = {1, 2};
  std::vector<int> tokens = {1, 2, 4, 8, 32};
  int rounds = 9;
  int experts = 64;
  bool json = false;
};

Options ParseOptions(int argc, char** argv) {
  Options options;
  Flags flags("expert_kernel", kHelp);
  flags.AddText("--kernel", options.kernel);
  flags.AddNumbers("--threads", options.threads, 1, kMaxTokens);
  flags.AddNumbers("--tokens", options.tokens, 1, kMaxTokens);
  flags.AddNumber("--rounds", options.rounds);
  flags.AddNumber("--experts", options.experts, 2);
  flags.AddSwitch("--json", options.json);
  flags.Parse(argc, argv);
  return options;
}

// Random records with scales 115..122, so that no result overflows.
void FillExperts(const HugeBuffer& records, int experts) {
  const size_t values = size_t{3584} * 3072;
  std::vector<uint8_t> tensors[6];
  const size_t stride = kShape.stride_bytes();
  for (int e = 0; e < 2; ++e) {
    for (int i = 0; i < 6; ++i) {
      const bool scale = i % 2 == 1;
      tensors[i].resize(scale ? values / 32 : values / 2);
      for (size_t k = 0; k < tensors[i].size(); ++k) {
        const auto b = static_cast<uint8_t>(Mix(k * 12 + e * 6 + i));
        tensors[i][k] = scale ? 115 + b % 8 : b;
      }
    }
    PackSlices(kShape,
               {tensors[0].data(), tensors[1].data(), tensors[2].data(),
                tensors[3].data(), tensors[4].data(), tensors[5].data()},
               {0, kShape.num_slices()}, records.data() + e * stride);
  }
  for (int e = 2; e < experts; ++e) {
    std::memcpy(records.data() + e * stride, records.data() + e % 2 * stride,
                stride);
  }
}

// T tokens and the private memory of each thread.
class Batch {
 public:
  Batch(const ExpertKernel& kernel, int num_tokens, int num_threads)
      : kernel_(kernel),
        num_tokens_(num_tokens),
        prepared_(kernel.prepared_bytes(kShape.latent_size, num_tokens)),
        weights_(num_tokens, 0.0625f),
        row_bytes_(sizeof(int64_t) * kShape.latent_size),
        sums_(row_bytes_ * num_tokens * num_threads),
        scratch_bytes_((kernel.scratch_bytes(kShape, num_tokens) + 4095) /
                       4096 * 4096),
        scratch_(scratch_bytes_ * num_threads),
        rows_(num_threads) {
    std::vector<float> x(size_t{3584} * num_tokens);
    std::vector<const float*> tokens;
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<float>(Mix(i) >> 40) * 0x1p-23f - 1.0f;
    }
    for (int t = 0; t < num_tokens; ++t) {
      tokens.push_back(&x[size_t(t) * kShape.latent_size]);
    }
    kernel.prepare(tokens.data(), kShape.latent_size, num_tokens,
                   prepared_.data(), nullptr);
    std::memset(scratch_.data(), 0, scratch_.size());
    for (int i = 0; i < num_tokens * num_threads; ++i) {
      rows_[i / num_tokens].push_back(
          reinterpret_cast<int64_t*>(sums_.data() + i * row_bytes_));
    }
  }

  void ClearSums() { std::memset(sums_.data(), 0, sums_.size()); }

  void Run(const uint8_t* record, SliceRun run, int thread) const {
    ExpertSliceArgs args;
    args.shape = kShape;
    args.slices = record + kShape.slice_offset(run.first);
    args.run = run;
    args.num_tokens = num_tokens_;
    args.prepared = prepared_.data();
    args.weights = weights_.data();
    args.sums = rows_[thread].data();
    args.scratch = scratch_.data() + thread * scratch_bytes_;
    if (kernel_.run_slices(args, nullptr) != KernelStatus::kOk) {
      std::fputs("expert_kernel: the kernel reported an error\n", stderr);
      std::exit(1);
    }
  }

 private:
  const ExpertKernel& kernel_;
  const int num_tokens_;
  HugeBuffer prepared_;
  std::vector<float> weights_;
  size_t row_bytes_;
  HugeBuffer sums_;
  size_t scratch_bytes_;
  HugeBuffer scratch_;
  std::vector<std::vector<int64_t*>> rows_;
};

// One line of the result.
struct Row {
  const KernelTarget* target;
  int threads;
  int tokens;
  std::vector<double> seconds;  // an expert
  std::vector<double> ratios;   // read time / kernel time
};

// Experts of one sample: a token-layer, or fewer where tokens make it long.
int ExpertsPerSample(int tokens) {
  return tokens <= 2 ? 16 : tokens <= 8 ? 6 : 2;
}

class ExpertBench {
 public:
  ExpertBench(const Options& options, int max_threads)
      : options_(options),
        records_(kShape.stride_bytes() * options.experts),
        workers_(max_threads) {
    FillExperts(records_, options.experts);
  }

  void MeasureOnce(Batch& batch, Row& row) {
    const int count = ExpertsPerSample(row.tokens);
    const Sample read =
        Each(row.threads, count, [&](const uint8_t* record, SliceRun run, int) {
          const size_t begin = kShape.slice_offset(run.first);
          const size_t end = kShape.slice_offset(run.first + run.count);
          Consume(StreamingRead(record + begin, end - begin));
        });
    batch.ClearSums();
    const Sample kernel =
        Each(row.threads, count,
             [&](const uint8_t* record, SliceRun run, int thread) {
               batch.Run(record, run, thread);
             });
    if (!read.undisturbed || !kernel.undisturbed) return;
    row.seconds.push_back(kernel.seconds / count);
    row.ratios.push_back(read.seconds / kernel.seconds);
  }

 private:
  // Calls visit for `count` experts, slices shared evenly among the threads.
  template <typename Visit>
  Sample Each(int threads, int count, const Visit& visit) {
    const int first = next_;
    next_ = (next_ + count) % options_.experts;
    return workers_.Run(threads, [&](int thread) {
      const int slices = kShape.num_slices();
      const int begin = slices * thread / threads;
      const int end = slices * (thread + 1) / threads;
      for (int i = 0; i < count; ++i) {
        const int expert = (first + i) % options_.experts;
        visit(records_.data() + expert * kShape.stride_bytes(),
              SliceRun{begin, end - begin}, thread);
      }
    });
  }

  const Options& options_;
  HugeBuffer records_;
  PinnedWorkers workers_;
  int next_ = 0;
};

void Print(const Options& options, const std::vector<Row>& rows) {
  if (!options.json) {
    std::printf("%-10s %7s %6s %10s %8s %8s %9s %7s\n", "kernel", "threads",
                "tokens", "us/expert", "GB/s", "of read", "GMAC/s", "samples");
  }
  for (const Row& row : rows) {
    const double seconds = Median(row.seconds);
    const double gb = seconds > 0 ? 1e-9 * kShape.payload_bytes() / seconds : 0;
    const double gmac =
        seconds > 0 ? 1e-9 * kMacsPerToken * row.tokens / seconds : 0;
    std::printf(options.json
                    ? "{\"kernel\": \"%s\", \"threads\": %d, \"tokens\": %d, "
                      "\"us_per_expert\": %.1f, \"gb_per_s\": %.2f, "
                      "\"of_read\": %.3f, \"gmac_per_s\": %.1f, "
                      "\"samples\": %zu}\n"
                    : "%-10s %7d %6d %10.1f %8.2f %8.3f %9.1f %7zu\n",
                row.target->name, row.threads, row.tokens, 1e6 * seconds, gb,
                Median(row.ratios), gmac, row.seconds.size());
  }
}

void RunAll(const Options& options) {
  const int max_threads =
      *std::max_element(options.threads.begin(), options.threads.end());
  ExpertBench bench(options, max_threads);
  std::vector<Row> rows;
  std::vector<std::unique_ptr<Batch>> batches;
  for (const KernelTarget* target : ChosenFastKernels(options.kernel)) {
    for (const int tokens : options.tokens) {
      for (const int threads : options.threads) {
        rows.push_back({target, threads, tokens, {}, {}});
        batches.push_back(
            std::make_unique<Batch>(target->expert, tokens, threads));
      }
    }
  }
  for (int round = 0; round < options.rounds; ++round) {
    for (size_t i = 0; i < rows.size(); ++i) {
      bench.MeasureOnce(*batches[i], rows[i]);
    }
  }
  Print(options, rows);
}

}  // namespace
}  // namespace deltafin::bench

int main(int argc, char** argv) {
  deltafin::bench::RunAll(deltafin::bench::ParseOptions(argc, argv));
}
