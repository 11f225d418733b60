// Times the read path of the expert store on records of the full model's size:
// layers of 16 experts through RecordStore against plain direct reads of the
// same bytes in the same run, the check alone, a cold mapping, and reading
// overlapped with the expert kernel.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "bench/measurement.h"
#include "bench/record_drive.h"
#include "common/base/aligned_buffer.h"
#include "common/base/digest.h"
#include "expert_node/storage/tiered_store.h"
#include "kernels/expert_tiles.h"
#include "kernels/kernel_registry.h"

namespace deltafin::bench {
namespace {

constexpr int kNumSlices = 12;
constexpr SliceRun kAll = {0, kNumSlices};

constexpr char kHelp[] =
    "usage: storage_tiers [--folder DIR] [--layers N] [--readers N] "
    "[--threads N]\n"
    "                     [--tokens N] [--json]\n"
    "Makes --layers (default 13) layers of 16 experts of 17,547,264 bytes in a "
    "new folder\n"
    "below --folder (default: here), reads each layer with --readers (default "
    "4) threads, in\n"
    "turn plainly (O_DIRECT, no fio) and through the record store, then "
    "computes it with\n"
    "--threads (default 2) for --tokens (default 1), alone and while the next "
    "is read.\n"
    "Ratios are medians over layers. The folder is deleted at the end.\n";

struct Options {
  std::string folder = ".";
  int layers = 13;
  int readers = 4;
  int threads = 2;
  int tokens = 1;
  bool json = false;
};

Options ParseOptions(int argc, char** argv) {
  Options options;
  const auto bad = [] {
    std::fputs(kHelp, stderr);
    std::exit(64);
  };
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--json") {
      options.json = true;
      continue;
    }
    if (flag == "--help") {
      std::fputs(kHelp, stdout);
      std::exit(0);
    }
    if (i + 1 == argc) bad();
    const char* const value = argv[++i];
    int* const number = flag == "--layers"    ? &options.layers
                        : flag == "--readers" ? &options.readers
                        : flag == "--threads" ? &options.threads
                        : flag == "--tokens"  ? &options.tokens
                                              : nullptr;
    if (number != nullptr) {
      *number = std::atoi(value);
      if (*number < 1 || *number > 512) bad();
    } else if (flag == "--folder") {
      options.folder = value;
    } else {
      bad();
    }
  }
  return options;
}

// Every figure, in the order of the table.
struct Figure {
  const char* name;
  const char* meaning;
  double value;
};

class StorageBench {
 public:
  explicit StorageBench(const Options& options)
      : options_(options), folder_(options.folder + "/storage_tiers_records") {
    if (!std::filesystem::create_directories(folder_)) {
      std::fprintf(stderr, "storage_tiers: %s exists already\n",
                   folder_.c_str());
      std::exit(1);
    }
    RecordStoreOptions store_options;
    store_options.program = "storage_tiers";
    auto store =
        RecordStore::Open(folder_, BenchModel(options.layers), store_options);
    Require(store.status());
    store_ = *std::move(store);
  }
  ~StorageBench() { std::filesystem::remove_all(folder_); }

  void Run() {
    Add("install_gb_per_s", "installing, checked and synced, one thread",
        InstallRecords(*store_) * 1e-9);
    CompareReads();
    MeasureCheck();
    MeasureMapping();
    Overlap();
  }

  void Print() const {
    if (options_.json) {
      const char* separator = "{";
      for (const Figure& f : figures_) {
        std::printf("%s\"%s\": %.4f", separator, f.name, f.value);
        separator = ", ";
      }
      std::puts("}");
      return;
    }
    for (const Figure& f : figures_) {
      std::printf("%-26s %9.4f  %s\n", f.name, f.value, f.meaning);
    }
  }

 private:
  void Add(const char* name, const char* meaning, double value) {
    figures_.push_back({name, meaning, value});
  }
  std::string DataFile(int layer) const {
    char name[32];
    std::snprintf(name, sizeof(name), "/layer-%02d.experts", layer);
    return folder_ + name;
  }

  void CompareReads() {
    std::vector<AlignedBuffer> buffers;
    for (int t = 0; t < options_.readers; ++t) {
      buffers.push_back(*AlignedBuffer::Allocate(kRecordShape.payload_bytes()));
      std::memset(buffers[t].data(), 0, buffers[t].size());
    }
    std::vector<double> plain_rate, store_rate, ratio, plain_cpu, store_cpu;
    for (int layer = 0; layer < options_.layers; ++layer) {
      Measured took[2];
      for (int turn = 0; turn < 2; ++turn) {
        // Whoever goes first alternates.
        const bool store = (layer + turn) % 2 == 1;
        took[store] =
            store ? ReadThroughStore(layer, buffers) : ReadPlainly(layer);
      }
      plain_rate.push_back(kLayerBytes / took[0].wall_s * 1e-9);
      store_rate.push_back(kLayerBytes / took[1].wall_s * 1e-9);
      ratio.push_back(took[0].wall_s / took[1].wall_s);
      plain_cpu.push_back(took[0].cpu_s * 1e3);
      store_cpu.push_back(took[1].cpu_s * 1e3);
    }
    Add("plain_gb_per_s", "O_DIRECT pread loop, same threads and pieces",
        Median(plain_rate));
    Add("store_gb_per_s", "the same layers through RecordStore, checked",
        Median(store_rate));
    Add("store_to_plain", "ratio of the two, layer by layer", Median(ratio));
    Add("plain_cpu_ms_per_layer", "CPU of the plain reads of 281 MB",
        Median(plain_cpu));
    Add("store_cpu_ms_per_layer", "CPU of the store's, check included",
        Median(store_cpu));
    double cached = 0;
    for (int layer = 0; layer < options_.layers; ++layer) {
      cached = std::max(cached, CachedShare(DataFile(layer)));
    }
    Add("cached_share", "of a layer's file in the page cache, worst", cached);
  }

  Measured ReadPlainly(int layer) {
    PlainReader reader(DataFile(layer), options_.readers);
    return Measure([&] {
      OnThreads(options_.readers,
                [&](int e, int t) { reader.ReadExpert(e, t); });
    });
  }

  Measured ReadThroughStore(int layer, std::vector<AlignedBuffer>& buffers) {
    return Measure([&] {
      OnThreads(options_.readers, [&](int expert, int thread) {
        std::vector<uint8_t*> out;
        for (int s = 0; s < kNumSlices; ++s) {
          out.push_back(buffers[thread].data() + kRecordShape.slice_offset(s));
        }
        Require(store_->Read({layer, expert}, kAll, out, [](int) {}).status());
      });
    });
  }

  // Digest and scan of one record over and over: more than a cache holds.
  void MeasureCheck() {
    AlignedBuffer layer = *AlignedBuffer::Allocate(
        kRecordShape.payload_bytes() * kExpertsPerLayer);
    for (int e = 0; e < kExpertsPerLayer; ++e) {
      std::vector<uint8_t*> out;
      for (int s = 0; s < kNumSlices; ++s) {
        out.push_back(layer.data() + kRecordShape.payload_bytes() * e +
                      kRecordShape.slice_offset(s));
      }
      Require(store_->Read({0, e}, kAll, out, [](int) {}).status());
    }
    const size_t bytes = kRecordShape.slice_offset(1);
    std::vector<double> cpu;
    for (int round = 0; round < 5; ++round) {
      cpu.push_back(Measure([&] {
                      for (int i = 0; i < kExpertsPerLayer * kNumSlices; ++i) {
                        const uint8_t* slice = layer.data() + bytes * i;
                        Consume(Xxh3Digest({slice, bytes}).low);
                        Consume(FindNanScaleInSlice(kRecordShape, 0, slice));
                      }
                    }).cpu_s *
                    1e3);
    }
    Add("check_cpu_ms_per_layer", "digest and scan of 281 MB in memory",
        Median(cpu));
  }

  void MeasureMapping() {
    const int layers = std::min(2, options_.layers);
    double seconds = 0;
    for (int layer = 0; layer < layers; ++layer) {
      seconds += FaultThroughMapping(DataFile(layer));
    }
    Add("mapping_gb_per_s", "faulting a cold mapping, one thread",
        kLayerBytes * layers / seconds * 1e-9);
  }

  void Overlap();

  const Options options_;
  const std::string folder_;
  std::unique_ptr<RecordStore> store_;
  std::vector<Figure> figures_;
};

// Computes the slices of a lease as they come.
class LayerCompute {
 public:
  LayerCompute(int num_threads, int num_tokens)
      : kernel_(BestKernel().expert),
        num_threads_(num_threads),
        num_tokens_(num_tokens),
        prepared_(kernel_.prepared_bytes(kLatent, num_tokens)),
        weights_(num_tokens, 0.0625f),
        sums_(size_t{8} * kLatent * num_tokens * num_threads),
        scratch_bytes_(
            (kernel_.scratch_bytes(kRecordShape, num_tokens) + 4095) / 4096 *
            4096),
        scratch_(scratch_bytes_ * num_threads) {
    std::vector<float> x(size_t{kLatent} * num_tokens);
    std::vector<const float*> rows;
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<float>(i * 2654435761u % 2048) / 1024.0f - 1.0f;
    }
    for (int t = 0; t < num_tokens; ++t) rows.push_back(&x[kLatent * t]);
    kernel_.prepare(rows.data(), kLatent, num_tokens, prepared_.data(),
                    nullptr);
  }

  // Waits for every slice; computes it unless `only_wait`.
  void Run(SliceLease& lease, bool only_wait) {
    std::memset(sums_.data(), 0, sums_.size());
    std::atomic<size_t> next = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < num_threads_; ++t) {
      threads.emplace_back([&, t] {
        SetContractFloatingPointMode();
        for (size_t i = next++; i < lease.order().size(); i = next++) {
          const int unit = lease.order()[i];
          const auto slice = lease.Wait(unit);
          Require(slice.status());
          if (!only_wait) Compute(*slice, unit % kNumSlices, t);
          lease.Release(unit);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  static constexpr int kLatent = kRecordShape.latent_size;

  void Compute(const uint8_t* bytes, int slice, int thread) {
    std::vector<int64_t*> rows;
    for (int t = 0; t < num_tokens_; ++t) {
      rows.push_back(sums_.as<int64_t>() +
                     size_t{kLatent} * (thread * num_tokens_ + t));
    }
    ExpertSliceArgs args;
    args.shape = kRecordShape;
    args.slices = bytes;
    args.run = {slice, 1};
    args.num_tokens = num_tokens_;
    args.prepared = prepared_.data();
    args.weights = weights_.data();
    args.sums = rows.data();
    args.scratch = scratch_.data() + thread * scratch_bytes_;
    if (kernel_.run_slices(args, nullptr) != KernelStatus::kOk) {
      Require(absl::InternalError("the kernel reported an error"));
    }
  }

  const ExpertKernel& kernel_;
  const int num_threads_;
  const int num_tokens_;
  HugeBuffer prepared_;
  std::vector<float> weights_;
  HugeBuffer sums_;
  const size_t scratch_bytes_;
  HugeBuffer scratch_;
};

// Layer by layer: read alone, then computed alone from memory; the next layer
// both at once.
void StorageBench::Overlap() {
  TieredStoreOptions options;
  options.num_readers = options_.readers;
  options.capacity_bytes = static_cast<size_t>(kLayerBytes) + (64 << 20);
  auto tiered = TieredStore::Create(std::move(store_), options);
  Require(tiered.status());
  LayerCompute compute(options_.threads, options_.tokens);
  const auto run = [&](int layer, bool only_wait) {
    std::vector<SliceKey> wanted;
    for (int i = 0; i < kExpertsPerLayer * kNumSlices; ++i) {
      wanted.push_back({{layer, i / kNumSlices}, i % kNumSlices});
    }
    return Measure([&] {
             const auto lease = (*tiered)->Acquire(wanted);
             compute.Run(*lease, only_wait);
           })
        .wall_s;
  };
  run(0, false);  // touches the memory
  std::vector<double> read, computed, both, ratio;
  for (int layer = 1; layer + 1 < options_.layers; layer += 2) {
    read.push_back(run(layer, true) * 1e3);
    computed.push_back(run(layer, false) * 1e3);
    both.push_back(run(layer + 1, false) * 1e3);
    ratio.push_back(both.back() / std::max(read.back(), computed.back()));
  }
  if (ratio.empty()) return;
  Add("read_ms_per_layer", "into the RAM tier, nothing computed", Median(read));
  Add("compute_ms_per_layer", "the kernel from the RAM tier", Median(computed));
  Add("both_ms_per_layer", "computing what is being read", Median(both));
  Add("both_to_larger", "ratio to the larger of the two", Median(ratio));
}

}  // namespace
}  // namespace deltafin::bench

int main(int argc, char** argv) {
  deltafin::bench::StorageBench bench(
      deltafin::bench::ParseOptions(argc, argv));
  bench.Run();
  bench.Print();
  return 0;
}
