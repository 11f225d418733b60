// spine_node/torch/matrix.h
//
// A weight matrix as a libtorch device keeps it.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

namespace deltafin::torch_spine {

enum class Storage { kF32, kBf16, kInt8 };

class Matrix {
 public:
  Matrix() = default;
  // Of f32 values [rows, cols], on their device. kBf16: the values are bf16's.
  // kInt8: quantised by rows as in docs/numerics.md section 5. Both packed in
  // the tiles of kernels/cuda/spine_card.h.
  Matrix(const at::Tensor& values, Storage storage);

  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  // [rows, cols]: the values that a product takes.
  at::Tensor Floats() const;
  int64_t bytes() const;

  // Packed alone: u8 [row tiles, stages, 32, 128]; [rows] of int8, else
  // undefined.
  const at::Tensor& tiles() const { return values_; }
  const at::Tensor& row_scale() const { return row_scale_; }

 private:
  int64_t rows_ = 0;
  int64_t cols_ = 0;
  Storage storage_ = Storage::kF32;
  at::Tensor values_;  // f32 [rows, cols] or tiles
  at::Tensor row_scale_;
};

// y = x W^T.
at::Tensor Linear(const at::Tensor& x, const Matrix& w);

}  // namespace deltafin::torch_spine
