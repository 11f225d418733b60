#include "bench/layer_reads.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <span>
#include <vector>

#include "bench/fio.h"
#include "expert_node/storage/drive_turns.h"
#include "expert_node/storage/layer_records.h"
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
      plain_readers_(options.reads_at_once),
      store_readers_(options.readers),
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
    plain_readers_.Run(kExpertsPerLayer, [&](int e, int) {
      reader.Read(e, {0, kNumSlices}, SliceAt(e, 0));
    });
  });
}

Measured LayerReads::IntoSmallBuffers(int layer) {
  const PlainReader reader(DataFile(layer));
  return Measure([&] {
    plain_readers_.Run(kExpertsPerLayer, [&](int e, int thread) {
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
  return Measure([&] { store_readers_.Run(kExpertsPerLayer, read); });
}

Measured LayerReads::Unchecked(int layer) {
  auto file = RecordFile::Open(DataFile(layer), RecordFile::Missing::kRefuse);
  Require(file.status());
  DriveTurns turns(options_.reads_at_once);
  const auto read = [&](int e, int) {
    for (SliceRun left = {0, kNumSlices}; left.count > 0;) {
      const DriveTurns::Turn turn = turns.Take();
      const SliceRun now =
          LayerRecords::NextRead(kRecordShape, left, turns.num_waiting() > 0);
      std::vector<std::span<uint8_t>> parts;
      for (int i = now.first; i < now.first + now.count; ++i) {
        parts.emplace_back(SliceAt(e, i), SliceAt(e, i + 1) - SliceAt(e, i));
      }
      Require((*file)->Read(kRecordShape.stride_bytes() * e +
                                kRecordShape.slice_offset(now.first),
                            std::span<const std::span<uint8_t>>(parts)));
      left = {now.first + now.count, left.count - now.count};
    }
  };
  return Measure([&] { store_readers_.Run(kExpertsPerLayer, read); });
}

double LayerReads::CheckSeconds() const {
  const int reads = (kNumSlices + slices_per_read_ - 1) / slices_per_read_;
  return static_cast<double>(later_check_ns_) * 1e-9 * kNumSlices /
         (kNumSlices - reads);
}

Measured LayerReads::ByFio(int layer) {
  const auto rate =
      FioReadRate(DataFile(layer), static_cast<size_t>(kLayerBytes),
                  kRecordShape.payload_bytes(),
                  DivisorUpTo(kExpertsPerLayer, options_.reads_at_once));
  if (!rate) Require(absl::InternalError("fio gave no figure"));
  return {kLayerBytes / *rate, 0};
}

}  // namespace deltafin::bench
