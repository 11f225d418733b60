// Times the read path of the expert store on records of the full model's size:
// layers of 16 experts through RecordStore against plain direct reads and fio
// over the same bytes in the same run, the check alone, a cold mapping, and
// reading overlapped with the expert kernel.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include "bench/fio.h"
#include "bench/flags.h"
#include "bench/layer_compute.h"
#include "bench/layer_reads.h"
#include "bench/measurement.h"
#include "bench/record_drive.h"
#include "common/base/digest.h"
#include "expert_node/storage/slice_check.h"
#include "expert_node/storage/tiered_store.h"

namespace deltafin::bench {
namespace {

constexpr int kNumSlices = 12;

constexpr char kHelp[] =
    "usage: storage_tiers [--folder DIR] [--layers N] [--readers N] "
    "[--reads-at-once N]\n"
    "                     [--threads N] [--tokens N] [--json]\n"
    "Makes --layers (default 13) layers of 16 experts of 17,547,264 bytes in a "
    "new folder\n"
    "below --folder (default: here). Reads each layer in turn plainly "
    "(O_DIRECT), with fio where\n"
    "it is installed, and through the record store with --readers (default 6) "
    "threads, of which\n"
    "--reads-at-once (default 4) may read while the others check; then "
    "computes it with --threads\n"
    "(default 2) for --tokens (default 1), alone and while the next is "
    "read.\n"
    "Ratios are medians over layers. The folder is deleted at the end.\n";

struct Options {
  std::string folder = ".";
  int layers = 13;
  int readers = 6;
  int reads_at_once = 4;
  int threads = 2;
  int tokens = 1;
  bool json = false;
};

Options ParseOptions(int argc, char** argv) {
  constexpr int kMost = 512;
  Options options;
  Flags flags("storage_tiers", kHelp);
  flags.AddText("--folder", options.folder);
  flags.AddNumber("--layers", options.layers, 1, kMost);
  flags.AddNumber("--readers", options.readers, 1, kMost);
  flags.AddNumber("--reads-at-once", options.reads_at_once, 1, kMost);
  flags.AddNumber("--threads", options.threads, 1, kMost);
  flags.AddNumber("--tokens", options.tokens, 1, kMost);
  flags.AddSwitch("--json", options.json);
  flags.Parse(argc, argv);
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
      : options_(options),
        folder_(options.folder + "/storage_tiers_records"),
        fio_(FioVersion()) {
    if (!std::filesystem::create_directories(folder_)) {
      std::fprintf(stderr, "storage_tiers: %s exists already\n",
                   folder_.c_str());
      std::exit(1);
    }
    RecordStoreOptions store_options;
    store_options.program = "storage_tiers";
    store_options.reads_at_once = options.reads_at_once;
    auto store =
        RecordStore::Open(folder_, BenchModel(options.layers), store_options);
    Require(store.status());
    store_ = *std::move(store);
    reads_ = std::make_unique<LayerReads>(
        *store_, LayerReads::Options{options.readers, options.reads_at_once});
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
    std::printf("%s\n", fio_ ? fio_->c_str() : "fio is not installed");
    for (const Figure& f : figures_) {
      std::printf("%-28s %9.4f  %s\n", f.name, f.value, f.meaning);
    }
  }

 private:
  void Add(const char* name, const char* meaning, double value) {
    figures_.push_back({name, meaning, value});
  }
  void CompareReads();
  Measured ReadLayer(int way, int layer);
  void MeasureCheck();
  void MeasureMapping();
  void Overlap();

  const Options options_;
  const std::string folder_;
  const std::optional<std::string> fio_;
  std::unique_ptr<RecordStore> store_;  // until Overlap
  std::unique_ptr<LayerReads> reads_;
  std::vector<Figure> figures_;
};

enum Way { kPlain, kSmallBuffers, kStore, kUnchecked, kFio, kNumWays };

Measured StorageBench::ReadLayer(int way, int layer) {
  switch (way) {
    case kPlain:
      return reads_->Plain(layer);
    case kSmallBuffers:
      return reads_->IntoSmallBuffers(layer);
    case kStore:
      return reads_->ThroughStore(layer);
    case kUnchecked:
      return reads_->Unchecked(layer);
    default:
      return reads_->ByFio(layer);
  }
}

// Whoever goes first alternates.
void StorageBench::CompareReads() {
  std::vector<double> rate[kNumWays], cpu[kNumWays];
  std::vector<double> to_plain, to_fio, check_cpu, beside_cpu;
  double cached = 0;
  for (int layer = 0; layer < options_.layers; ++layer) {
    double wall[kNumWays] = {};
    for (int turn = 0; turn < kNumWays; ++turn) {
      const int way = (layer + turn) % kNumWays;
      if (way == kFio && !fio_) continue;
      const Measured took = ReadLayer(way, layer);
      wall[way] = took.wall_s;
      rate[way].push_back(kLayerBytes / took.wall_s * 1e-9);
      cpu[way].push_back(took.cpu_s * 1e3);
    }
    check_cpu.push_back(reads_->CheckSeconds() * 1e3);
    beside_cpu.push_back(cpu[kStore].back() - check_cpu.back());
    to_plain.push_back(wall[kPlain] / wall[kStore]);
    to_fio.push_back(wall[kFio] / wall[kStore]);
    cached = std::max(cached, CachedShare(reads_->DataFile(layer)));
  }
  Add("store_gb_per_s", "16 experts of a layer through RecordStore, checked",
      Median(rate[kStore]));
  Add("plain_gb_per_s", "preads of the same experts into the same memory",
      Median(rate[kPlain]));
  Add("store_to_plain", "ratio of the two, layer by layer", Median(to_plain));
  if (fio_) {
    Add("fio_gb_per_s", "the same experts by fio, as many at once",
        Median(rate[kFio]));
    Add("store_to_fio", "ratio, layer by layer", Median(to_fio));
  }
  Add("small_buffers_gb_per_s",
      "preads into a slice of memory a thread: none is kept",
      Median(rate[kSmallBuffers]));
  Add("huge_page_share", "of the memory that is read into",
      HugePageShare(reads_->bytes(), static_cast<size_t>(kLayerBytes)));
  Add("plain_cpu_ms_per_layer", "CPU of the plain reads of 281 MB",
      Median(cpu[kPlain]));
  Add("store_read_cpu_ms_per_layer", "CPU of the store's, nothing checked",
      Median(cpu[kUnchecked]));
  Add("beside_check_cpu_ms_per_layer",
      "the same beside the check, interrupts of the drive included",
      Median(beside_cpu));
  Add("store_check_cpu_ms_per_layer", "CPU of the check beside other reads",
      Median(check_cpu));
  Add("cached_share", "of a layer's file in the page cache, worst", cached);
}

// Of a layer in memory: more than a cache holds.
void StorageBench::MeasureCheck() {
  reads_->ThroughStore(0);
  const size_t bytes = kRecordShape.slice_offset(1);
  std::vector<Xxh128> digests;  // of an expert: all are the same
  for (int s = 0; s < kNumSlices; ++s) {
    digests.push_back(Xxh3Digest({reads_->bytes() + bytes * s, bytes}));
  }
  std::vector<double> cpu;
  for (int round = 0; round < 5; ++round) {
    cpu.push_back(Measure([&] {
                    for (int i = 0; i < kExpertsPerLayer * kNumSlices; ++i) {
                      const int slice = i % kNumSlices;
                      Require(CheckSlice(kRecordShape, slice,
                                         reads_->bytes() + bytes * i,
                                         digests[slice]));
                    }
                  }).cpu_s *
                  1e3);
  }
  Add("check_cpu_ms_per_layer", "digest and scan of 281 MB in memory",
      Median(cpu));
}

void StorageBench::MeasureMapping() {
  const int layers = std::min(2, options_.layers);
  double seconds = 0;
  for (int layer = 0; layer < layers; ++layer) {
    seconds += FaultThroughMapping(reads_->DataFile(layer));
  }
  Add("mapping_gb_per_s", "faulting a cold mapping, one thread",
      kLayerBytes * layers / seconds * 1e-9);
}

// Layer by layer: read plainly, then into the RAM tier, then computed from
// there; the next layer read into the tier and computed at once.
void StorageBench::Overlap() {
  TieredStoreOptions options;
  options.num_readers = options_.readers;
  options.capacity_bytes = static_cast<size_t>(kLayerBytes) + (64 << 20);
  auto tiered = TieredStore::Create(std::move(store_), options);
  Require(tiered.status());
  LayerCompute compute(options_.threads, options_.tokens);
  const auto run = [&](int layer, LayerCompute::Work work) {
    std::vector<SliceKey> wanted;
    for (int i = 0; i < kExpertsPerLayer * kNumSlices; ++i) {
      wanted.push_back({{layer, i / kNumSlices}, i % kNumSlices});
    }
    const Measured took = Measure([&] {
      const auto lease = (*tiered)->Acquire(wanted);
      compute.Run(*lease, work);
    });
    return took.wall_s * 1e3;
  };
  run(0, LayerCompute::Work::kCompute);  // touches the memory
  std::vector<double> plain, read, computed, both, to_plain, hidden, larger;
  for (int layer = 1; layer + 1 < options_.layers; layer += 2) {
    plain.push_back(reads_->Plain(layer).wall_s * 1e3);
    read.push_back(run(layer, LayerCompute::Work::kOnlyWait));
    computed.push_back(run(layer, LayerCompute::Work::kCompute));
    both.push_back(run(layer + 1, LayerCompute::Work::kCompute));
    to_plain.push_back(plain.back() / read.back());
    larger.push_back(both.back() / std::max(read.back(), computed.back()));
    hidden.push_back(both.back() / std::max(plain.back(), computed.back()));
  }
  if (plain.empty()) return;
  Add("read_ms_per_layer", "into the RAM tier, checked, nothing computed",
      Median(read));
  Add("tier_to_plain", "rate of that to plain reads in turn with it",
      Median(to_plain));
  Add("compute_ms_per_layer", "the kernel from the RAM tier", Median(computed));
  Add("both_ms_per_layer", "reading, checking and computing a layer",
      Median(both));
  Add("both_to_larger", "ratio to the larger of read and compute",
      Median(larger));
  Add("both_to_plain_or_compute", "ratio to the larger of plain and compute",
      Median(hidden));
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
