// common/base/aligned_buffer.h
//
// Owned memory on page boundaries, huge pages where the system gives them.
// Move-only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"

namespace deltafin {

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  // Zero-filled, page-aligned. Errors: RESOURCE_EXHAUSTED with the size.
  static absl::StatusOr<AlignedBuffer> Allocate(size_t bytes);
  ~AlignedBuffer();
  AlignedBuffer(AlignedBuffer&& other) noexcept;
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept;

  uint8_t* data() { return data_; }
  const uint8_t* data() const { return data_; }
  size_t size() const { return size_; }
  std::span<uint8_t> bytes() { return {data_, size_}; }
  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(data_);
  }
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(data_);
  }

 private:
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace deltafin
