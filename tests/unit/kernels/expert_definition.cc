#include "tests/unit/kernels/expert_definition.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace deltafin {
namespace {

constexpr int kTwice[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                            0, -1, -2, -3, -4, -6, -8, -12};

uint32_t Bits(float f) { return std::bit_cast<uint32_t>(f); }
float FloatOf(uint32_t u) { return std::bit_cast<float>(u); }

int Code(const ReleasedMatrix& m, int row, int col) {
  const uint8_t byte = m.packed[(static_cast<size_t>(row) * m.cols + col) / 2];
  return byte >> (4 * (col % 2)) & 15;
}

int Scale(const ReleasedMatrix& m, int row, int group) {
  return m.scale[static_cast<size_t>(row) * (m.cols / 32) + group];
}

float Exp(float x) {
  x = x < -87.0f ? -87.0f : x;
  x = 88.0f < x ? 88.0f : x;
  const float t = std::fma(x, 0x1.715476p+0f, 12582912.0f);
  const float n = t - 12582912.0f;
  float r = std::fma(n, -0x1.62e430p-1f, x);
  r = std::fma(n, 0x1.05c610p-29f, r);
  float q = std::fma(0x1.6a264ap-10f, r, 0x1.123988p-7f);
  q = std::fma(q, r, 0x1.5558ecp-5f);
  q = std::fma(q, r, 0x1.555492p-3f);
  q = std::fma(q, r, 0x1.fffffcp-2f);
  const float p = std::fma(q, r * r, r) + 1.0f;
  return p * FloatOf((Bits(t) << 23) + 0x3f800000u);
}

float Sigmoid(float x) {
  const float e = Exp(-std::fabs(x));
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

float Tanh(float x) {
  const float a = std::fabs(x);
  const float z = a * a;
  float p = std::fma(-0x1.762d90p-8f, z, 0x1.5239d6p-6f);
  p = std::fma(p, z, -0x1.b83fcap-5f);
  p = std::fma(p, z, 0x1.110748p-3f);
  p = std::fma(p, z, -0x1.555534p-2f);
  const float e = Exp(a * -2.0f);
  const float y = a < 0.625f ? std::fma(a * z, p, a) : (1.0f - e) / (1.0f + e);
  return std::copysign(y, x);
}

// Adds w * y to the fixed-point sums.
bool DefineFixedAdd(float weight, const std::vector<float>& y, int64_t* sums) {
  bool ok = true;
  for (size_t i = 0; i < y.size(); ++i) {
    const double t = static_cast<double>(weight) * y[i];
    if (std::fabs(t) < 0x1p15) {
      sums[i] += static_cast<int64_t>(std::nearbyint(t * 0x1p40));
    } else {
      ok = false;
    }
  }
  return ok;
}

}  // namespace

bool DefineQuantized(const float* x, int cols, QuantizedRow* row) {
  row->x.assign(cols, 0);
  row->exponent.assign(cols / 32, 0);
  for (int g = 0; g < cols / 32; ++g) {
    uint32_t m = 0;
    for (int j = 0; j < 32; ++j) {
      m = std::max(m, Bits(x[32 * g + j]) & 0x7fffffffu);
    }
    if (m >= 0x7f800000u) return false;
    const int biased = std::max<int>((m + 0x555555u) >> 23, 33);
    row->exponent[g] = biased - 149;
    const float factor = FloatOf(static_cast<uint32_t>(276 - biased) << 23);
    for (int j = 32 * g; j < 32 * g + 32; ++j) {
      row->x[j] = static_cast<int32_t>(std::nearbyint(x[j] * factor));
    }
  }
  return true;
}

bool DefineProduct(const ReleasedMatrix& m, const QuantizedRow& x,
                   int first_group, float* y) {
  bool finite = true;
  for (int r = 0; r < m.rows; ++r) {
    float acc = 0;
    for (size_t g = 0; g < x.exponent.size(); ++g) {
      int64_t sum = 0;
      for (int j = 0; j < 32; ++j) {
        sum += int64_t{kTwice[Code(m, r, 32 * (first_group + g) + j)]} *
               x.x[32 * g + j];
      }
      const int field =
          std::clamp(Scale(m, r, first_group + g) + x.exponent[g] - 1, 0, 255);
      acc = std::fma(static_cast<float>(sum),
                     FloatOf(static_cast<uint32_t>(field) << 23), acc);
    }
    y[r] = acc;
    finite &= std::isfinite(acc);
  }
  return finite;
}

float DefineSitu(float gate, float up, SituParams params) {
  const float ib = 1.0f / params.beta;
  const float il = 1.0f / params.linear_beta;
  const float a = params.beta * Tanh(gate * ib) * Sigmoid(gate);
  return a * (params.linear_beta * Tanh(up * il));
}

bool DefineSlices(const ExpertShape& shape, SituParams situ,
                  const ReleasedExpert& released, SliceRun run,
                  const QuantizedRow& x, float weight, int64_t* sums) {
  const int latent = shape.latent_size;
  const int inner = shape.intermediate_size;
  bool ok = true;
  for (int s = run.first; s < run.first + run.count; ++s) {
    const size_t row = size_t{256} * s;
    const int n = std::min<int>(256, inner - static_cast<int>(row));
    std::vector<float> gate(n), up(n), h(n), y(latent);
    ok &= DefineProduct({released.gate_packed + row * latent / 2,
                         released.gate_scale + row * latent / 32, n, latent},
                        x, 0, gate.data());
    ok &= DefineProduct({released.up_packed + row * latent / 2,
                         released.up_scale + row * latent / 32, n, latent},
                        x, 0, up.data());
    for (int i = 0; i < n; ++i) h[i] = DefineSitu(gate[i], up[i], situ);
    QuantizedRow quantized;
    if (!DefineQuantized(h.data(), n, &quantized)) return false;
    DefineProduct({released.down_packed, released.down_scale, latent, inner},
                  quantized, static_cast<int>(row) / 32, y.data());
    ok &= DefineFixedAdd(weight, y, sums);
  }
  return ok;
}

std::vector<uint8_t> DefineTiles(const ReleasedMatrix& m) {
  std::vector<uint8_t> out;
  const int groups = m.cols / 32;
  for (int block = 0; block < m.rows; block += 256) {
    const int block_rows = std::min(256, m.rows - block);
    for (int c = 0; c < groups; c += 2) {
      const int g_count = std::min(2, groups - c);
      for (int t = 0; t < block_rows; t += 32) {
        const int rows = std::min(32, block_rows - t);
        for (int g = 0; g < g_count; ++g) {
          for (int r = 0; r < rows; ++r) {
            out.push_back(m.scale[size_t(block + t + r) * groups + c + g]);
          }
        }
        for (int q = 0; q < 4 * g_count; ++q) {
          for (int r = 0; r < rows; ++r) {
            const size_t at =
                (size_t(block + t + r) * m.cols + c * 32 + q * 8) / 2;
            for (int b = 0; b < 4; ++b) out.push_back(m.packed[at + b]);
          }
        }
      }
    }
  }
  return out;
}

float DecodeMxfp4(int code, int scale) {
  if (scale == 255) return std::numeric_limits<float>::quiet_NaN();
  const double magnitude = std::abs(kTwice[code]) / 2.0;
  const auto value = static_cast<float>(std::ldexp(magnitude, scale - 127));
  return code >= 8 ? -value : value;
}

}  // namespace deltafin
