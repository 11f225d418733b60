#include "common/base/aligned_buffer.h"

#include <sys/mman.h>

#include <cstring>
#include <utility>

#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kPage = 4096;

constexpr size_t RoundUp(size_t bytes, size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

void* MapAnonymous(size_t bytes) {
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return mapped == MAP_FAILED ? nullptr : mapped;
}

// Maps `bytes` (a multiple of the page) on a huge-page boundary: maps one huge
// page more and gives the ends back.
void* MapOnHugePages(size_t bytes) {
  void* mapped = MapAnonymous(bytes + kHugePage);
  if (mapped == nullptr) return nullptr;
  const auto begin = reinterpret_cast<uintptr_t>(mapped);
  const uintptr_t aligned = RoundUp(begin, kHugePage);
  if (aligned > begin) munmap(mapped, aligned - begin);
  const size_t tail = begin + kHugePage - aligned;
  if (tail > 0) munmap(reinterpret_cast<void*>(aligned + bytes), tail);
  void* result = reinterpret_cast<void*>(aligned);
  madvise(result, bytes, MADV_HUGEPAGE);  // advice: refusal changes nothing
  return result;
}

}  // namespace

absl::StatusOr<AlignedBuffer> AlignedBuffer::Allocate(size_t bytes) {
  AlignedBuffer buffer;
  if (bytes == 0) return buffer;
  void* mapped = nullptr;
  if (bytes < (size_t{1} << 62)) {
    const size_t mapped_bytes = RoundUp(bytes, kPage);
    mapped = bytes < kHugePage ? MapAnonymous(mapped_bytes)
                               : MapOnHugePages(mapped_bytes);
  }
  if (mapped == nullptr) {
    return absl::ResourceExhaustedError(fmt::format(
        "cannot allocate {} bytes: {}", bytes, std::strerror(errno)));
  }
  buffer.data_ = static_cast<uint8_t*>(mapped);
  buffer.size_ = bytes;
  return buffer;
}

AlignedBuffer::~AlignedBuffer() {
  if (data_ != nullptr) munmap(data_, RoundUp(size_, kPage));
}

AlignedBuffer::AlignedBuffer(AlignedBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

AlignedBuffer& AlignedBuffer::operator=(AlignedBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace deltafin
