// Input: u32 little-endian size of the data section, then the header JSON. What
// the parser accepts must tile the data section exactly.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/safetensors.h"

using deltafin::SafetensorsFile;
using deltafin::TensorInfo;

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

void RequireShapeMatches(const TensorInfo& info) {
  unsigned __int128 bytes = deltafin::DTypeSize(info.dtype);
  for (const int64_t dim : info.shape) {
    Require(dim >= 0);
    bytes *= static_cast<uint64_t>(dim);
  }
  Require(bytes == info.bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  uint32_t data_bytes = 0;
  if (size < sizeof(data_bytes)) return 0;
  std::memcpy(&data_bytes, bytes, sizeof(data_bytes));
  const std::string_view json(
      reinterpret_cast<const char*>(bytes) + sizeof(data_bytes),
      size - sizeof(data_bytes));
  const uint64_t data_begin = 8 + json.size();
  const auto tensors =
      SafetensorsFile::ParseHeader(json, data_begin, data_begin + data_bytes);
  if (!tensors.ok()) return 0;
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (const auto& [name, info] : *tensors) {
    RequireShapeMatches(info);
    ranges.emplace_back(info.offset, info.offset + info.bytes);
  }
  std::sort(ranges.begin(), ranges.end());
  uint64_t covered = data_begin;
  for (const auto& [begin, end] : ranges) {
    Require(begin == covered);
    covered = end;
  }
  Require(covered == data_begin + data_bytes);
  return 0;
}
