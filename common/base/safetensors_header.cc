// Header JSON -> tensor table, with every rule of the format checked
// (docs/model.md section 7.1).

#include <algorithm>
#include <limits>
#include <utility>

#include "common/base/safetensors.h"
#include "common/base/status_macros.h"
#include "simdjson.h"

namespace deltafin {
namespace {

namespace dom = simdjson::dom;

constexpr size_t kMaxDepth = 8;
constexpr size_t kMaxRank = 8;
constexpr uint64_t kMaxDimension = uint64_t{1} << 62;

struct DTypeEntry {
  DType dtype;
  std::string_view name;
  size_t size;
};
constexpr DTypeEntry kDTypes[] = {
    {DType::kBf16, "BF16", 2}, {DType::kF32, "F32", 4}, {DType::kU8, "U8", 1},
    {DType::kI8, "I8", 1},     {DType::kU16, "U16", 2}, {DType::kI64, "I64", 8},
    {DType::kF64, "F64", 8}};

const DTypeEntry& EntryOf(DType dtype) {
  return *std::find_if(
      std::begin(kDTypes), std::end(kDTypes),
      [dtype](const DTypeEntry& e) { return e.dtype == dtype; });
}

template <typename... Args>
absl::Status Invalid(fmt::format_string<Args...> format, Args&&... args) {
  return absl::InvalidArgumentError(
      fmt::format(format, std::forward<Args>(args)...));
}

absl::Status ReadDType(dom::element value, TensorInfo& info) {
  std::string_view name;
  if (value.get_string().get(name) != simdjson::SUCCESS) {
    return Invalid("dtype is no string");
  }
  for (const DTypeEntry& entry : kDTypes) {
    if (entry.name != name) continue;
    info.dtype = entry.dtype;
    return absl::OkStatus();
  }
  return Invalid("dtype '{}' is not supported", name);
}

absl::Status ReadShape(dom::element value, TensorInfo& info) {
  dom::array dims;
  if (value.get_array().get(dims) != simdjson::SUCCESS) {
    return Invalid("shape is no list");
  }
  for (const dom::element dim : dims) {
    uint64_t size = 0;
    if (dim.get_uint64().get(size) != simdjson::SUCCESS ||
        size > kMaxDimension) {
      return Invalid("shape holds {}, which is no size", simdjson::minify(dim));
    }
    if (info.shape.size() == kMaxRank) {
      return Invalid("shape has more than {} dimensions", kMaxRank);
    }
    info.shape.push_back(static_cast<int64_t>(size));
  }
  return absl::OkStatus();
}

// Leaves the offset relative to the data section.
absl::Status ReadOffsets(dom::element value, uint64_t data_bytes,
                         TensorInfo& info) {
  dom::array pair;
  uint64_t begin = 0;
  uint64_t end = 0;
  if (value.get_array().get(pair) != simdjson::SUCCESS || pair.size() != 2 ||
      pair.at(0).get_uint64().get(begin) != simdjson::SUCCESS ||
      pair.at(1).get_uint64().get(end) != simdjson::SUCCESS) {
    return Invalid("data_offsets is {}, not two whole numbers",
                   simdjson::minify(value).substr(0, 80));
  }
  if (begin > end || end > data_bytes) {
    return Invalid("data_offsets [{}, {}] do not lie in the {} data bytes",
                   begin, end, data_bytes);
  }
  info.offset = begin;
  info.bytes = end - begin;
  return absl::OkStatus();
}

absl::Status CheckBytes(const TensorInfo& info) {
  unsigned __int128 bytes = DTypeSize(info.dtype);
  for (const int64_t dim : info.shape) {
    if (dim == 0) bytes = 0;
  }
  for (const int64_t dim : info.shape) {
    bytes *= static_cast<uint64_t>(dim);
    if (bytes > std::numeric_limits<uint64_t>::max()) {
      return Invalid("the shape's product overflows");
    }
  }
  if (static_cast<uint64_t>(bytes) == info.bytes) return absl::OkStatus();
  return Invalid("shape and dtype ask for {} bytes, data_offsets hold {}",
                 static_cast<uint64_t>(bytes), info.bytes);
}

absl::StatusOr<TensorInfo> ReadTensorEntry(dom::element value,
                                           uint64_t data_bytes) {
  dom::object object;
  if (value.get_object().get(object) != simdjson::SUCCESS) {
    return Invalid("entry is no object");
  }
  TensorInfo info;
  int dtypes = 0;
  int shapes = 0;
  int offsets = 0;
  for (const dom::key_value_pair field : object) {
    if (field.key == "dtype") {
      if (++dtypes == 1) RETURN_IF_ERROR(ReadDType(field.value, info));
    } else if (field.key == "shape") {
      if (++shapes == 1) RETURN_IF_ERROR(ReadShape(field.value, info));
    } else if (field.key == "data_offsets") {
      if (++offsets == 1) {
        RETURN_IF_ERROR(ReadOffsets(field.value, data_bytes, info));
      }
    } else {
      return Invalid("unknown key '{}'", field.key);
    }
  }
  if (dtypes != 1 || shapes != 1 || offsets != 1) {
    return Invalid("needs dtype, shape and data_offsets, each once");
  }
  RETURN_IF_ERROR(CheckBytes(info));
  return info;
}

absl::Status CheckMetadata(dom::element value) {
  dom::object object;
  if (value.get_object().get(object) != simdjson::SUCCESS) {
    return Invalid("__metadata__ is no object");
  }
  for (const dom::key_value_pair field : object) {
    if (!field.value.is_string()) {
      return Invalid("__metadata__ '{}' is no string", field.key);
    }
  }
  return absl::OkStatus();
}

using TensorTable = absl::flat_hash_map<std::string, TensorInfo>;

// Sorted by offset, the tensors must cover the data section exactly.
absl::Status CheckCoverage(const TensorTable& tensors, uint64_t data_bytes) {
  std::vector<const TensorTable::value_type*> order;
  order.reserve(tensors.size());
  for (const auto& tensor : tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return std::tuple(a->second.offset, a->second.bytes, a->first) <
           std::tuple(b->second.offset, b->second.bytes, b->first);
  });
  uint64_t covered = 0;
  for (const auto* tensor : order) {
    const auto& [name, info] = *tensor;
    if (info.offset != covered) {
      return Invalid(
          "tensor {}: data begins at {}, {} the previous tensor's "
          "end at {}",
          name, info.offset,
          info.offset < covered ? "overlapping" : "after a gap from", covered);
    }
    covered = info.offset + info.bytes;
  }
  if (covered == data_bytes) return absl::OkStatus();
  return Invalid("{} bytes follow the last tensor's end at {}",
                 data_bytes - covered, covered);
}

absl::StatusOr<TensorTable> ReadTable(dom::object header, uint64_t data_bytes) {
  TensorTable tensors;
  tensors.reserve(header.size());
  bool metadata_seen = false;
  for (const dom::key_value_pair field : header) {
    if (field.key == "__metadata__") {
      if (std::exchange(metadata_seen, true)) {
        return Invalid("__metadata__ appears twice");
      }
      RETURN_IF_ERROR(CheckMetadata(field.value));
      continue;
    }
    absl::StatusOr<TensorInfo> info = ReadTensorEntry(field.value, data_bytes);
    if (!info.ok()) {
      return AddContext(info.status(), fmt::format("tensor {}", field.key));
    }
    if (!tensors.emplace(field.key, *std::move(info)).second) {
      return Invalid("tensor {} appears twice", field.key);
    }
  }
  return tensors;
}

}  // namespace

size_t DTypeSize(DType dtype) { return EntryOf(dtype).size; }
std::string_view DTypeName(DType dtype) { return EntryOf(dtype).name; }

absl::StatusOr<TensorTable> SafetensorsFile::ParseHeader(
    std::string_view header_json, uint64_t data_begin, uint64_t file_bytes) {
  if (data_begin > file_bytes) {
    return Invalid("the header ends at {}, the file at {}", data_begin,
                   file_bytes);
  }
  const uint64_t data_bytes = file_bytes - data_begin;
  dom::parser parser;
  dom::object header;
  simdjson::error_code error = parser.allocate(header_json.size(), kMaxDepth);
  if (!error) {
    error = parser.parse(simdjson::padded_string(header_json))
                .get_object()
                .get(header);
  }
  if (error) {
    return Invalid("the header is no valid JSON object: {}",
                   simdjson::error_message(error));
  }
  ASSIGN_OR_RETURN(TensorTable tensors, ReadTable(header, data_bytes));
  RETURN_IF_ERROR(CheckCoverage(tensors, data_bytes));
  for (auto& [name, info] : tensors) info.offset += data_begin;
  return tensors;
}

}  // namespace deltafin
