#include "bench/layer_reads.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <span>
#include <vector>

#include "bench/fio.h"
#include "expert_node/storage/drive_turns.h"
#include "expert_node/storage/record_file.h"

namespace deltafin::bench {
namespace {

constexpr int kNumSlices = kRecordShape.num_slices();

// The largest divisor of `n` that is at most `most`.
int DivisorUpTo(int n, int most) {
  int divisor = std::min(n, most);
  while (n % divisor != 0) --divisor;
  return divisor;
}

}  // namespace

LayerReads::LayerReads(RecordStore& store, const Options& options)
    : store_(store),
      options_(options),
      slices_per_read_(store.slices_per_read()),
      layer_(kRecordShape.payload_bytes() * kExpertsPerLayer) {
  std::memset(layer_.data(), 0, layer_.size());
}

std::string LayerReads::DataFile(int layer) const {
  char name[32];
  std::snprintf(name, sizeof(name), "/layer-%02d.experts", layer);
  return store_.folder() + name;
}

Measured LayerReads::Plain(int layer) {
  const PlainReader reader(DataFile(layer));
  return Measure([&] {
    OnThreads(options_.reads_at_once, [&](int e, int) {
      for (int s = 0; s < kNumSlices; s += slices_per_read_) {
        reader.Read(e, {s, std::min(slices_per_read_, kNumSlices - s)},
                    SliceAt(e, s));
      }
    });
  });
}

Measured LayerReads::IntoSmallBuffers(int layer) {
  const PlainReader reader(DataFile(layer));
  return Measure([&] {
    OnThreads(options_.reads_at_once, [&](int e, int thread) {
      for (int s = 0; s < kNumSlices; ++s) {
        reader.Read(e, {s, 1}, SliceAt(0, thread % kNumSlices));
      }
    });
  });
}

Measured LayerReads::ThroughStore(int layer) {
  later_check_ns_ = 0;
  const auto read = [&](int expert, int) {
    std::vector<uint8_t*> out;
    for (int s = 0; s < kNumSlices; ++s) out.push_back(SliceAt(expert, s));
    double before = ThreadCpu();
    const auto ready = [&](int slice) {
      const double now = ThreadCpu();
      if (slice % slices_per_read_ != 0) {
        later_check_ns_ += std::llround((now - before) * 1e9);
      }
      before = now;
    };
    Require(store_.Read({layer, expert}, {0, kNumSlices}, out, ready).status());
  };
  return Measure([&] { OnThreads(options_.readers, read); });
}

Measured LayerReads::Unchecked(int layer) {
  auto file = RecordFile::Open(DataFile(layer), RecordFile::Missing::kRefuse);
  Require(file.status());
  DriveTurns turns(options_.reads_at_once);
  const auto read = [&](int e, int) {
    for (int s = 0; s < kNumSlices; s += slices_per_read_) {
      std::vector<std::span<uint8_t>> parts;
      for (int i = s; i < std::min(s + slices_per_read_, kNumSlices); ++i) {
        parts.emplace_back(SliceAt(e, i), SliceAt(e, i + 1) - SliceAt(e, i));
      }
      const DriveTurns::Turn turn = turns.Take();
      Require((*file)->Read(
          kRecordShape.stride_bytes() * e + kRecordShape.slice_offset(s),
          std::span<const std::span<uint8_t>>(parts)));
    }
  };
  return Measure([&] { OnThreads(options_.readers, read); });
}

double LayerReads::CheckSeconds() const {
  const int reads = (kNumSlices + slices_per_read_ - 1) / slices_per_read_;
  return static_cast<double>(later_check_ns_) * 1e-9 * kNumSlices /
         (kNumSlices - reads);
}

Measured LayerReads::ByFio(int layer) {
  const int slices = DivisorUpTo(kNumSlices, slices_per_read_);
  const auto rate =
      FioReadRate(DataFile(layer), static_cast<size_t>(kLayerBytes),
                  kRecordShape.slice_offset(slices),
                  DivisorUpTo(kExpertsPerLayer, options_.reads_at_once));
  if (!rate) Require(absl::InternalError("fio gave no figure"));
  return {kLayerBytes / *rate, 0};
}

}  // namespace deltafin::bench
