// Times the spine's matrix products on matrices of the full model's size, from
// memory, against a streaming read of the same bytes in the same run.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "bench/chosen_kernels.h"
#include "bench/flags.h"
#include "bench/measurement.h"
#include "kernels/kernel_registry.h"

namespace deltafin::bench {
namespace {

constexpr int kMaxTokens = 512;

constexpr char kHelp[] =
    "usage: linear_kernel [--kernel NAME] [--formats bf16,int8,f32] "
    "[--threads 1,2]\n"
    "                     [--tokens 1,2,4,8,32] [--rounds N] [--memory MIB] "
    "[--json]\n"
    "Matrices [12288, 7168] and [7168, 12288] in tile order, rotating over "
    "--memory MiB\n"
    "(default 1280; more than the last-level cache). Each sample is preceded "
    "by a streaming\n"
    "read of as many bytes on the same threads; the ratio is the median over "
    "rounds of read\n"
    "time to kernel time. Samples whose threads lost their core are dropped.\n";

struct Shape {
  int rows;
  int cols;
};

constexpr Shape kShapes[] = {{12288, 7168}, {7168, 12288}};

struct Format {
  const char* name;
  WeightFormat format;
};

constexpr Format kFormats[] = {{"bf16", WeightFormat::kBf16},
                               {"int8", WeightFormat::kInt8},
                               {"f32", WeightFormat::kF32}};

struct Options {
  std::string kernel;  // empty: every supported one but the reference
  std::string formats = "bf16,int8";
  std::vector<int> threads = {1, 2};
  std::vector<int> tokens = {1, 2, 4, 8, 32};
  int rounds = 9;
  int memory_mib = 1280;
  bool json = false;
};

// Whether each of the names is one of kFormats.
bool AreFormats(std::string_view names) {
  for (size_t comma = 0; comma != names.npos;) {
    comma = names.find(',');
    if (std::ranges::find(kFormats, names.substr(0, comma), &Format::name) ==
        std::end(kFormats)) {
      return false;
    }
    if (comma != names.npos) names.remove_prefix(comma + 1);
  }
  return true;
}

Options ParseOptions(int argc, char** argv) {
  Options options;
  Flags flags("linear_kernel", kHelp);
  flags.AddText("--kernel", options.kernel);
  flags.Add("--formats", [&](const std::string& names) {
    options.formats = names;
    return AreFormats(names);
  });
  flags.AddNumbers("--threads", options.threads, 1, kMaxTokens);
  flags.AddNumbers("--tokens", options.tokens, 1, kMaxTokens);
  flags.AddNumber("--rounds", options.rounds);
  flags.AddNumber("--memory", options.memory_mib, 1024);
  flags.AddSwitch("--json", options.json);
  flags.Parse(argc, argv);
  return options;
}

// Dwords that are ordinary numbers in each format: bf16 pairs of magnitude
// 2^-9 .. 2^-2, which are an f32 of that magnitude, too.
void FillWeights(const HugeBuffer& memory) {
  uint32_t state = 1;
  auto* dwords = memory.as<uint32_t>();
  for (size_t i = 0; i < memory.size() / sizeof(uint32_t); ++i) {
    state = state * 1664525u + 1013904223u;
    dwords[i] = (state & 0x83ff83ffu) | 0x3b003b00u;
  }
}

// T prepared tokens and room for their results.
class Batch {
 public:
  Batch(const LinearKernel& kernel, WeightFormat format, Shape shape,
        int num_tokens)
      : kernel_(kernel),
        format_(format),
        shape_(shape),
        num_tokens_(num_tokens),
        prepared_(kernel.prepared_bytes(format, shape.cols, num_tokens)),
        y_(size_t(num_tokens) * shape.rows * sizeof(float)),
        row_scale_(shape.rows, 0x1p-7f) {
    std::vector<float> x(size_t(num_tokens) * shape.cols);
    uint32_t state = 7;
    for (float& v : x) {
      state = state * 1664525u + 1013904223u;
      v = static_cast<float>(state >> 9) * 0x1p-22f - 1.0f;
    }
    kernel.prepare(format, x.data(), shape.cols, num_tokens, shape.cols,
                   prepared_.data());
    std::fill_n(y_.as<float>(), size_t(num_tokens) * shape.rows, 0.0f);
  }

  size_t bytes() const {
    return LinearTileBytes(format_, shape_.rows, shape_.cols);
  }

  // Row blocks [begin, end) of the matrix at `tiles`.
  void Run(const uint8_t* tiles, int begin, int end) const {
    const LinearWeights weights = {format_, shape_.rows, shape_.cols, tiles,
                                   row_scale_.data()};
    const KernelStatus status = kernel_.multiply(
        weights, prepared_.data(), num_tokens_, begin * kRowBlock,
        end * kRowBlock, y_.as<float>(), shape_.rows);
    if (status != KernelStatus::kOk) {
      std::fputs("linear_kernel: the kernel reported an error\n", stderr);
      std::exit(1);
    }
  }

 private:
  const LinearKernel& kernel_;
  WeightFormat format_;
  Shape shape_;
  int num_tokens_;
  HugeBuffer prepared_;
  HugeBuffer y_;
  std::vector<float> row_scale_;
};

// One line of the result.
struct Row {
  const KernelTarget* target;
  Format format;
  Shape shape;
  int threads;
  int tokens;
  std::vector<double> seconds;
  std::vector<double> ratios;  // read time / kernel time
};

class LinearBench {
 public:
  LinearBench(int memory_mib, int max_threads)
      : memory_(size_t(memory_mib) << 20), workers_(max_threads) {
    FillWeights(memory_);
  }

  void MeasureOnce(const Batch& batch, Row& row) {
    const int blocks = row.shape.rows / kRowBlock;
    const size_t block_bytes = batch.bytes() / blocks;
    const uint8_t* other = NextMatrix(batch.bytes());
    const Sample read = Share(row.threads, blocks, [&](int begin, int end) {
      Consume(StreamingRead(other + begin * block_bytes,
                            (end - begin) * block_bytes));
    });
    const uint8_t* tiles = NextMatrix(batch.bytes());
    const Sample kernel = Share(row.threads, blocks, [&](int begin, int end) {
      batch.Run(tiles, begin, end);
    });
    if (!read.undisturbed || !kernel.undisturbed) return;
    row.seconds.push_back(kernel.seconds);
    row.ratios.push_back(read.seconds / kernel.seconds);
  }

 private:
  const uint8_t* NextMatrix(size_t bytes) {
    if (next_ + bytes > memory_.size()) next_ = 0;
    const uint8_t* at = memory_.data() + next_;
    next_ += bytes;
    return at;
  }

  template <typename Visit>
  Sample Share(int threads, int blocks, const Visit& visit) {
    return workers_.Run(threads, [&](int thread) {
      visit(blocks * thread / threads, blocks * (thread + 1) / threads);
    });
  }

  HugeBuffer memory_;
  PinnedWorkers workers_;
  size_t next_ = 0;
};

void Print(const Options& options, const std::vector<Row>& rows) {
  if (!options.json) {
    std::printf("%-10s %-5s %-12s %7s %6s %8s %7s %8s %8s %7s\n", "kernel",
                "type", "shape", "threads", "tokens", "ms", "GB/s", "of read",
                "GMAC/s", "samples");
  }
  for (const Row& row : rows) {
    const double seconds = Median(row.seconds);
    const double macs = double(row.shape.rows) * row.shape.cols * row.tokens;
    const size_t bytes =
        LinearTileBytes(row.format.format, row.shape.rows, row.shape.cols);
    const double per_second = seconds > 0 ? 1e-9 / seconds : 0;
    std::printf(
        options.json ? "{\"kernel\": \"%s\", \"format\": \"%s\", \"rows\": %d, "
                       "\"cols\": %d, \"threads\": %d, \"tokens\": %d, "
                       "\"ms\": %.3f, \"gb_per_s\": %.2f, \"of_read\": %.3f, "
                       "\"gmac_per_s\": %.1f, \"samples\": %zu}\n"
                     : "%-10s %-5s %5dx%-6d %7d %6d %8.3f %7.2f %8.3f %8.1f "
                       "%7zu\n",
        row.target->name, row.format.name, row.shape.rows, row.shape.cols,
        row.threads, row.tokens, 1e3 * seconds, bytes * per_second,
        Median(row.ratios), macs * per_second, row.seconds.size());
  }
}

std::vector<Row> MakeRows(const Options& options) {
  std::vector<Row> rows;
  for (const KernelTarget* target : ChosenFastKernels(options.kernel)) {
    for (const Format& format : kFormats) {
      if (options.formats.find(format.name) == std::string::npos) continue;
      for (const Shape& shape : kShapes) {
        for (const int tokens : options.tokens) {
          for (const int threads : options.threads) {
            rows.push_back({target, format, shape, threads, tokens, {}, {}});
          }
        }
      }
    }
  }
  return rows;
}

void RunAll(const Options& options) {
  std::vector<Row> rows = MakeRows(options);
  std::vector<std::unique_ptr<Batch>> batches;
  for (const Row& row : rows) {
    batches.push_back(std::make_unique<Batch>(
        row.target->linear, row.format.format, row.shape, row.tokens));
  }
  LinearBench bench(
      options.memory_mib,
      *std::max_element(options.threads.begin(), options.threads.end()));
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
