#include "spine_node/torch/matrix.h"

namespace deltafin::torch_spine {
namespace {

constexpr int64_t kTileRows = 32;
constexpr int64_t kTileRowBytes = 128;
constexpr double kLargestCode = 127;

int64_t RoundUp(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

// u8 [rows, bytes] to tiles.
at::Tensor Pack(const at::Tensor& bytes) {
  const int64_t rows = RoundUp(bytes.size(0), kTileRows);
  const int64_t width = RoundUp(bytes.size(1), kTileRowBytes);
  const at::Tensor padded = at::constant_pad_nd(
      bytes, {0, width - bytes.size(1), 0, rows - bytes.size(0)});
  return padded
      .reshape(
          {rows / kTileRows, kTileRows, width / kTileRowBytes, kTileRowBytes})
      .permute({0, 2, 1, 3})
      .contiguous();
}

// The inverse, without the padding.
at::Tensor Unpack(const at::Tensor& tiles, int64_t rows, int64_t row_bytes) {
  return tiles.permute({0, 2, 1, 3})
      .reshape({tiles.size(0) * kTileRows, tiles.size(1) * kTileRowBytes})
      .narrow(0, 0, rows)
      .narrow(1, 0, row_bytes)
      .contiguous();
}

}  // namespace

Matrix::Matrix(const at::Tensor& values, Storage storage)
    : rows_(values.size(0)), cols_(values.size(1)), storage_(storage) {
  switch (storage) {
    case Storage::kF32:
      values_ = values;
      return;
    case Storage::kBf16:
      values_ = Pack(values.to(at::kBFloat16).view(at::kByte));
      return;
    case Storage::kInt8: {
      const at::Tensor largest = std::get<0>(values.abs().max(1));
      // By a tensor: by a number CUDA would multiply with the inverse.
      row_scale_ = largest / at::full_like(largest, kLargestCode);
      // Rows of zeros have scale zero.
      const at::Tensor divisor =
          at::where(row_scale_ == 0, at::ones_like(row_scale_), row_scale_);
      values_ = Pack((values / divisor.unsqueeze(1))
                         .round()
                         .clamp(-kLargestCode, kLargestCode)
                         .to(at::kChar)
                         .view(at::kByte));
      return;
    }
  }
}

at::Tensor Matrix::Floats() const {
  switch (storage_) {
    case Storage::kBf16:
      return Unpack(values_, rows_, 2 * cols_)
          .view(at::kBFloat16)
          .to(at::kFloat);
    case Storage::kInt8:
      return Unpack(values_, rows_, cols_).view(at::kChar).to(at::kFloat) *
             row_scale_.unsqueeze(1);
    case Storage::kF32:
      break;
  }
  return values_;
}

int64_t Matrix::bytes() const {
  const int64_t scales =
      row_scale_.defined() ? rows_ * int64_t{sizeof(float)} : 0;
  return values_.numel() * values_.element_size() + scales;
}

at::Tensor Linear(const at::Tensor& x, const Matrix& w) {
  return at::matmul(x, w.Floats().t());
}

}  // namespace deltafin::torch_spine
