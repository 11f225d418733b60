// Times the re-ordering of released experts into records and back, on one
// pinned thread, from memory.
#include "kernels/expert_tiles.h"

#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "bench/flags.h"
#include "bench/measurement.h"

namespace deltafin::bench {
namespace {

constexpr ExpertShape kShape = {3584, 3072};
constexpr int kExperts = 24;
constexpr int kRounds = 7;
constexpr size_t kValues = size_t{3584} * 3072;

// The six tensors of an expert one after the other, as in a shard.
ReleasedExpertBuffers TensorsAt(uint8_t* p) {
  ReleasedExpertBuffers b;
  b.gate_packed = p;
  b.gate_scale = b.gate_packed + kValues / 2;
  b.up_packed = b.gate_scale + kValues / 32;
  b.up_scale = b.up_packed + kValues / 2;
  b.down_packed = b.up_scale + kValues / 32;
  b.down_scale = b.down_packed + kValues / 2;
  return b;
}

ReleasedExpert ReadOnly(const ReleasedExpertBuffers& b) {
  return {b.gate_packed, b.gate_scale,  b.up_packed,
          b.up_scale,    b.down_packed, b.down_scale};
}

class TilesBench {
 public:
  TilesBench()
      : released_(kExperts * kShape.payload_bytes()),
        records_(kExperts * kShape.payload_bytes()),
        workers_(1) {
    std::memset(released_.data(), 0x5a, released_.size());
    std::memset(records_.data(), 0, records_.size());
  }

  void Report() {
    const SliceRun all = {0, kShape.num_slices()};
    Time("copy", [](uint8_t* released, uint8_t* record) {
      std::memcpy(record, released, kShape.payload_bytes());
    });
    Time("pack", [all](uint8_t* released, uint8_t* record) {
      PackSlices(kShape, ReadOnly(TensorsAt(released)), all, record);
    });
    Time("unpack", [](uint8_t* released, uint8_t* record) {
      UnpackRecord(kShape, record, TensorsAt(released));
    });
    Time("find NaN scale", [](uint8_t* released, uint8_t*) {
      Consume(FindNanScale(kShape, ReadOnly(TensorsAt(released))).found);
    });
  }

 private:
  using Work = std::function<void(uint8_t* released, uint8_t* record)>;

  void Time(const char* name, const Work& work) {
    std::vector<double> seconds;
    for (int round = 0; round < kRounds; ++round) {
      const Sample sample = workers_.Run(1, [&](int) {
        for (int e = 0; e < kExperts; ++e) {
          const size_t at = e * kShape.payload_bytes();
          work(released_.data() + at, records_.data() + at);
        }
      });
      if (sample.undisturbed) seconds.push_back(sample.seconds / kExperts);
    }
    const double median = Median(seconds);
    std::printf("%-16s %8.0f us an expert, %6.2f GB/s (%zu samples)\n", name,
                1e6 * median, 1e-9 * kShape.payload_bytes() / median,
                seconds.size());
  }

  HugeBuffer released_;
  HugeBuffer records_;
  PinnedWorkers workers_;
};

}  // namespace
}  // namespace deltafin::bench

int main(int argc, char** argv) {
  deltafin::bench::Flags(
      "expert_tiles",
      "usage: expert_tiles\nTimes PackSlices, UnpackRecord and FindNanScale on "
      "24 experts of the full size.\n")
      .Parse(argc, argv);
  deltafin::bench::TilesBench().Report();
}
