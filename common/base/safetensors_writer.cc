#include "common/base/safetensors_writer.h"

#include <cstring>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "common/base/status_macros.h"

namespace deltafin {
namespace {

// A JSON string literal.
std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      quoted += fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

absl::StatusOr<uint64_t> BytesOf(const SafetensorsWriter::Tensor& tensor) {
  uint64_t bytes = DTypeSize(tensor.dtype);
  for (const int64_t dim : tensor.shape) {
    if (dim < 0 ||
        __builtin_mul_overflow(bytes, static_cast<uint64_t>(dim), &bytes)) {
      return absl::InvalidArgumentError(
          fmt::format("tensor {}: shape [{}] cannot be stored", tensor.name,
                      fmt::join(tensor.shape, ", ")));
    }
  }
  return bytes;
}

std::string MetadataText(const std::map<std::string, std::string>& metadata) {
  std::string text = "\"__metadata__\":{";
  for (const auto& [key, value] : metadata) {
    if (text.back() != '{') text += ',';
    text += Quoted(key) + ":" + Quoted(value);
  }
  return text + '}';
}

struct Header {
  std::string json;  // padded to a multiple of 8
  uint64_t data_bytes = 0;
};

absl::StatusOr<Header> MakeHeader(
    const std::vector<SafetensorsWriter::Tensor>& tensors,
    const std::map<std::string, std::string>& metadata) {
  Header header;
  absl::flat_hash_set<std::string> names;
  header.json = "{";
  if (!metadata.empty()) header.json += MetadataText(metadata);
  for (const SafetensorsWriter::Tensor& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      return absl::InvalidArgumentError(
          fmt::format("tensor {} appears twice", tensor.name));
    }
    ASSIGN_OR_RETURN(const uint64_t bytes, BytesOf(tensor));
    if (header.json.back() != '{') header.json += ',';
    header.json += fmt::format(
        "{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
        Quoted(tensor.name), DTypeName(tensor.dtype),
        fmt::join(tensor.shape, ","), header.data_bytes,
        header.data_bytes + bytes);
    header.data_bytes += bytes;
  }
  header.json += '}';
  header.json.resize((header.json.size() + 7) / 8 * 8, ' ');
  return header;
}

std::string WithLength(const std::string& json) {
  std::string length(sizeof(uint64_t), '\0');
  const uint64_t header_bytes = json.size();
  std::memcpy(length.data(), &header_bytes, sizeof(header_bytes));
  return length + json;
}

std::span<const uint8_t> BytesOf(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(AtomicFile file, std::string path,
                                     uint64_t data_bytes)
    : file_(std::move(file)), path_(std::move(path)), data_bytes_(data_bytes) {}

absl::StatusOr<std::string> SafetensorsWriter::HeaderBytes(
    const std::vector<Tensor>& tensors,
    const std::map<std::string, std::string>& metadata) {
  ASSIGN_OR_RETURN(const Header header, MakeHeader(tensors, metadata));
  return WithLength(header.json);
}

absl::StatusOr<SafetensorsWriter> SafetensorsWriter::Create(
    const std::string& path, std::vector<Tensor> tensors,
    const std::map<std::string, std::string>& metadata) {
  const absl::StatusOr<Header> header = MakeHeader(tensors, metadata);
  if (!header.ok()) return AddContext(header.status(), path);
  ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  RETURN_IF_ERROR(file.Append(BytesOf(WithLength(header->json))));
  return SafetensorsWriter(std::move(file), path, header->data_bytes);
}

absl::Status SafetensorsWriter::Append(std::span<const uint8_t> bytes) {
  if (bytes.size() > data_bytes_ - written_) {
    return absl::OutOfRangeError(fmt::format("{}: {} bytes after {} of {}",
                                             path_, bytes.size(), written_,
                                             data_bytes_));
  }
  RETURN_IF_ERROR(file_.Append(bytes));
  written_ += bytes.size();
  return absl::OkStatus();
}

absl::Status SafetensorsWriter::Commit() {
  if (written_ != data_bytes_) {
    return absl::FailedPreconditionError(fmt::format(
        "{}: {} of {} bytes were written", path_, written_, data_bytes_));
  }
  return file_.Commit();
}

}  // namespace deltafin
