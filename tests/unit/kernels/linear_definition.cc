#include "tests/unit/kernels/linear_definition.h"

#include <algorithm>

namespace deltafin {
namespace {

uint16_t Bf16Bits(float v) {
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(v) >> 16);
}

float DefinedFloatRow(const float* w, const float* x, int cols) {
  float acc = 0;
  for (int chunk = 0; chunk < cols; chunk += 64) {
    float p = 0;
    for (int c = chunk; c < std::min(cols, chunk + 64); ++c) {
      p = std::fma(w[c], x[c], p);
    }
    acc = acc + p;
  }
  return acc;
}

float DefinedInt8Row(const float* q, const float* x, int cols, float scale) {
  float acc = 0;
  for (int chunk = 0; chunk < cols; chunk += 128) {
    const int end = std::min(cols, chunk + 128);
    uint32_t m = 0;
    for (int c = chunk; c < end; ++c) {
      m = std::max(m, std::bit_cast<uint32_t>(x[c]) & 0x7fffffffu);
    }
    const int e = static_cast<int>(std::max((m + 0x555555) >> 23, 33u)) - 149;
    int64_t sum = 0;
    for (int c = chunk; c < end; ++c) {
      // x * 2^-e without a rounding of its own.
      const auto v = std::llrint(std::ldexp(static_cast<double>(x[c]), -e));
      sum += static_cast<int64_t>(q[c]) * v;
    }
    acc = std::fma(static_cast<float>(sum), std::ldexp(1.0f, e), acc);
  }
  return acc * scale;
}

template <typename Value>
std::vector<Value> Converted(const LinearCase& c, int block,
                             Value (*convert)(float)) {
  const size_t first = static_cast<size_t>(block) * kRowBlock * c.cols;
  const size_t size = static_cast<size_t>(BlockRows(c.rows, block)) * c.cols;
  std::vector<Value> values(size);
  for (size_t i = 0; i < size; ++i) values[i] = convert(c.weights[first + i]);
  return values;
}

float RandomWeight(WeightFormat format, FloatRange range, XorShift64* random) {
  if (format == WeightFormat::kInt8) {
    return static_cast<float>(random->Below(255) - 127);
  }
  const float v = RandomFloat(random, range);
  if (format == WeightFormat::kF32) return v;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(v) & 0xffff0000u);
}

}  // namespace

LinearWeights LinearCase::view() const {
  return {format, rows, cols, tiles.data(),
          row_scale.empty() ? nullptr : row_scale.data()};
}

LinearCase MakeLinearCase(WeightFormat format, int rows, int cols,
                          FloatRange range, XorShift64* random) {
  LinearCase c;
  c.format = format;
  c.rows = rows;
  c.cols = cols;
  c.weights.resize(static_cast<size_t>(rows) * cols);
  for (float& w : c.weights) w = RandomWeight(format, range, random);
  if (format == WeightFormat::kInt8) {
    c.row_scale = RandomFloats(random, rows, {100, 120});
    for (float& s : c.row_scale) s = std::fabs(s);
  }
  PackLinearCase(&c);
  return c;
}

void PackLinearCase(LinearCase* c) {
  c->tiles.resize(LinearTileBytes(c->format, c->rows, c->cols) / 4);
  for (int block = 0; block * kRowBlock < c->rows; ++block) {
    void* out = reinterpret_cast<uint8_t*>(c->tiles.data()) +
                LinearBlockOffset(c->format, c->rows, c->cols, block);
    const int rows = BlockRows(c->rows, block);
    switch (c->format) {
      case WeightFormat::kBf16:
        PackBf16Block(Converted<uint16_t>(*c, block, Bf16Bits).data(), rows,
                      c->cols, out);
        break;
      case WeightFormat::kF32:
        PackF32Block(&c->weights[size_t(block) * kRowBlock * c->cols], rows,
                     c->cols, out);
        break;
      case WeightFormat::kInt8:
        PackInt8Block(
            Converted<int8_t>(*c, block,
                              [](float v) { return static_cast<int8_t>(v); })
                .data(),
            rows, c->cols, out);
        break;
    }
  }
}

std::vector<float> DefinedProduct(const LinearCase& c,
                                  const std::vector<float>& x, int num_tokens) {
  std::vector<float> y;
  for (int t = 0; t < num_tokens; ++t) {
    const float* row = &x[size_t(t) * c.cols];
    for (int r = 0; r < c.rows; ++r) {
      const float* w = &c.weights[size_t(r) * c.cols];
      y.push_back(c.format == WeightFormat::kInt8
                      ? DefinedInt8Row(w, row, c.cols, c.row_scale[r])
                      : DefinedFloatRow(w, row, c.cols));
    }
  }
  return y;
}

std::vector<float> KernelProduct(const LinearKernel& kernel,
                                 const LinearCase& c,
                                 const std::vector<float>& x, int num_tokens,
                                 KernelStatus* status) {
  AlignedBytes prepared(kernel.prepared_bytes(c.format, c.cols, num_tokens));
  std::vector<float> y(static_cast<size_t>(num_tokens) * c.rows);
  *status = kernel.prepare(c.format, x.data(), c.cols, num_tokens, c.cols,
                           prepared.get());
  if (*status != KernelStatus::kOk) return y;
  *status = kernel.multiply(c.view(), prepared.get(), num_tokens, 0, c.rows,
                            y.data(), c.rows);
  return y;
}

}  // namespace deltafin
