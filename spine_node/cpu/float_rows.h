// spine_node/cpu/float_rows.h
//
// An owned [rows, width] f32 array. Pages are touched on first use, so a
// generous number of rows costs address space only. Move-only.
#pragma once

#include <cstddef>
#include <utility>

#include "absl/status/statusor.h"
#include "common/base/aligned_buffer.h"
#include "common/base/status_macros.h"

namespace deltafin {

class FloatRows {
 public:
  FloatRows() = default;
  // Errors: RESOURCE_EXHAUSTED.
  static absl::StatusOr<FloatRows> Allocate(size_t rows, size_t width) {
    ASSIGN_OR_RETURN(AlignedBuffer buffer,
                     AlignedBuffer::Allocate(rows * width * sizeof(float)));
    FloatRows result;
    result.buffer_ = std::move(buffer);
    result.rows_ = rows;
    result.width_ = width;
    return result;
  }

  size_t rows() const { return rows_; }
  size_t width() const { return width_; }
  float* row(size_t r) { return buffer_.as<float>() + r * width_; }
  const float* row(size_t r) const { return buffer_.as<float>() + r * width_; }

 private:
  AlignedBuffer buffer_;
  size_t rows_ = 0;
  size_t width_ = 0;
};

}  // namespace deltafin
