#include "common/base/safetensors.h"

#include <bit>
#include <cstring>
#include <utility>

#include "common/base/file_io.h"
#include "common/base/status_macros.h"

namespace deltafin {
namespace {

static_assert(std::endian::native == std::endian::little,
              "tensor bytes are used as they are on disk");

constexpr uint64_t kLengthBytes = 8;
// The largest real header has a few MiB; this stops a length from making us
// allocate the machine's memory.
constexpr uint64_t kMaxHeaderBytes = uint64_t{1} << 30;

absl::StatusOr<std::string> ReadHeader(int fd, uint64_t file_bytes,
                                       const std::string& path) {
  if (file_bytes < kLengthBytes) {
    return absl::InvalidArgumentError(fmt::format(
        "the file has {} bytes, less than a header's length", file_bytes));
  }
  uint8_t raw[kLengthBytes];
  RETURN_IF_ERROR(ReadExactly(fd, 0, raw, path));
  uint64_t length = 0;
  std::memcpy(&length, raw, sizeof(length));
  if (length > kMaxHeaderBytes || length > file_bytes - kLengthBytes) {
    return absl::InvalidArgumentError(
        fmt::format("the header claims {} bytes; the file has {}, the largest "
                    "header supported {}",
                    length, file_bytes, kMaxHeaderBytes));
  }
  std::string header(length, '\0');
  RETURN_IF_ERROR(
      ReadExactly(fd, kLengthBytes,
                  {reinterpret_cast<uint8_t*>(header.data()), length}, path));
  return header;
}

}  // namespace

struct SafetensorsFile::Impl {
  std::string path;
  FileDescriptor fd;
  absl::flat_hash_map<std::string, TensorInfo> tensors;
};

SafetensorsFile::SafetensorsFile() : impl_(std::make_unique<Impl>()) {}
SafetensorsFile::~SafetensorsFile() = default;

absl::StatusOr<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Open(
    const std::string& path) {
  std::unique_ptr<SafetensorsFile> file(new SafetensorsFile);
  Impl& impl = *file->impl_;
  impl.path = path;
  ASSIGN_OR_RETURN(impl.fd, OpenForReading(path));
  ASSIGN_OR_RETURN(const uint64_t file_bytes, FileSize(impl.fd.get(), path));
  const absl::StatusOr<std::string> header =
      ReadHeader(impl.fd.get(), file_bytes, path);
  if (!header.ok()) return AddContext(header.status(), path);
  auto tensors =
      ParseHeader(*header, kLengthBytes + header->size(), file_bytes);
  if (!tensors.ok()) return AddContext(tensors.status(), path);
  impl.tensors = *std::move(tensors);
  return file;
}

const std::string& SafetensorsFile::path() const { return impl_->path; }
int SafetensorsFile::fd() const { return impl_->fd.get(); }

const absl::flat_hash_map<std::string, TensorInfo>& SafetensorsFile::tensors()
    const {
  return impl_->tensors;
}

const TensorInfo* SafetensorsFile::Find(std::string_view name) const {
  const auto found =
      impl_->tensors.find(absl::string_view(name.data(), name.size()));
  return found == impl_->tensors.end() ? nullptr : &found->second;
}

absl::Status SafetensorsFile::Read(const TensorInfo& tensor, uint64_t begin,
                                   std::span<uint8_t> out) const {
  if (begin > tensor.bytes || out.size() > tensor.bytes - begin) {
    return absl::OutOfRangeError(fmt::format(
        "{}: read {} bytes at {} of a tensor of {} bytes at offset {}",
        impl_->path, out.size(), begin, tensor.bytes, tensor.offset));
  }
  return ReadExactly(impl_->fd.get(), tensor.offset + begin, out, impl_->path);
}

}  // namespace deltafin
