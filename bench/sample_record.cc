#include "bench/sample_record.h"

namespace deltafin::bench {
uint64_t Mix(uint64_t n) {
  uint64_t z = n * 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

std::vector<uint8_t> MakeSampleRecord() {
  const size_t values = size_t{3584} * 3072;
  std::vector<uint8_t> tensors[6];
  for (int i = 0; i < 6; ++i) {
    const bool scale = i % 2 == 1;
    tensors[i].resize(scale ? values / 32 : values / 2);
    for (size_t k = 0; k < tensors[i].size(); ++k) {
      const auto b = static_cast<uint8_t>(Mix(k * 6 + i));
      tensors[i][k] = scale ? 115 + b % 8 : b;
    }
  }
  std::vector<uint8_t> record(kRecordShape.stride_bytes());
  PackSlices(kRecordShape,
             {tensors[0].data(), tensors[1].data(), tensors[2].data(),
              tensors[3].data(), tensors[4].data(), tensors[5].data()},
             {0, kRecordShape.num_slices()}, record.data());
  return record;
}

}  // namespace deltafin::bench
