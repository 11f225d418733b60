// Prints small cases of the spine's kernels and the results of every target of
// this machine, for linear_exact_model.py.
#include <cstdio>
#include <functional>
#include <initializer_list>

#include "kernels/kernel_registry.h"
#include "tests/unit/kernels/linear_definition.h"

namespace deltafin {
namespace {

using Floats = std::vector<float>;
using Compute = std::function<Floats(const ElementwiseKernel&)>;

template <typename T>
void PrintHex(const std::vector<T>& values) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
  std::printf(" ");
  for (size_t i = 0; i < values.size() * sizeof(T); ++i) {
    std::printf("%02x", bytes[i]);
  }
}

template <typename Visit>
void ForEachSupported(const Visit& visit) {
  for (const KernelTarget* target : CompiledKernels()) {
    if (target->supported()) visit(*target);
  }
}

// KIND inputs... [target result]...
void DumpElementwise(const char* kind, std::initializer_list<Floats> inputs,
                     const Compute& compute) {
  std::printf("%s", kind);
  for (const Floats& input : inputs) PrintHex(input);
  ForEachSupported([&](const KernelTarget& target) {
    std::printf(" %s", target.name);
    PrintHex(compute(target.elementwise));
  });
  std::printf("\n");
}

void DumpProduct(const char* kind, const LinearCase& c, const Floats& x) {
  std::printf("%s", kind);
  PrintHex(c.weights);
  PrintHex(x);
  PrintHex(c.row_scale);
  ForEachSupported([&](const KernelTarget& target) {
    KernelStatus status;
    std::printf(" %s", target.name);
    PrintHex(KernelProduct(target.linear, c, x, 1, &status));
  });
  std::printf("\n");
}

void DumpProducts(XorShift64* random) {
  static constexpr FloatRange kRanges[] = {{115, 134}, {0, 199}, {30, 89}};
  for (int k = 0; k < 12; ++k) {
    const FloatRange range = kRanges[k % 3];
    const int cols = 129 + 20 * (k % 4);
    const auto x = RandomFloats(random, cols, range);
    DumpProduct("chunks",
                MakeLinearCase(WeightFormat::kBf16, 2, cols, range, random), x);
    DumpProduct("chunks",
                MakeLinearCase(WeightFormat::kF32, 2, cols, range, random), x);
    LinearCase c = MakeLinearCase(WeightFormat::kInt8, 2, cols, range, random);
    DumpProduct("int8", c, x);
  }
}

void DumpQuantizedRows(XorShift64* random) {
  for (int k = 0; k < 10; ++k) {
    std::vector<uint16_t> row;
    for (const float v : RandomFloats(random, 40, {100, 110 + 12 * (k % 3)})) {
      row.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(v) >> 16));
    }
    std::vector<int8_t> q(row.size());
    Floats scale(1);
    QuantizeRowInt8(row.data(), static_cast<int>(row.size()), q.data(),
                    scale.data());
    std::printf("quantize");
    PrintHex(row);
    PrintHex(scale);
    PrintHex(q);
    std::printf("\n");
  }
}

using Map = void (*)(const float*, int, float*);

void DumpMap(const char* kind, Map ElementwiseKernel::*map, const Floats& x) {
  DumpElementwise(kind, {x}, [&](const ElementwiseKernel& k) {
    Floats y(x.size());
    (k.*map)(x.data(), static_cast<int>(x.size()), y.data());
    return y;
  });
}

void DumpFunctions(XorShift64* random) {
  for (const FloatRange range : {FloatRange{90, 135}, {118, 133}}) {
    const auto x = RandomFloats(random, 150, range);
    const auto u = RandomFloats(random, 150, range);
    DumpMap("exp", &ElementwiseKernel::exp, x);
    DumpMap("sigmoid", &ElementwiseKernel::sigmoid, x);
    DumpMap("silu", &ElementwiseKernel::silu, x);
    for (const SituParams p : {SituParams{}, SituParams{3.0f, 0.0f}}) {
      DumpElementwise("situ", {{p.beta, p.linear_beta}, x, u},
                      [&](const ElementwiseKernel& k) {
                        Floats y(x.size());
                        k.situ(x.data(), u.data(), 150, p, y.data());
                        return y;
                      });
    }
    DumpElementwise(
        "decay", {{1.25f, -5.0f}, x, u}, [&](const ElementwiseKernel& k) {
          Floats y(x.size());
          k.kda_decay(x.data(), u.data(), 150, 1.25f, -5.0f, y.data());
          return y;
        });
  }
}

void DumpReductions(XorShift64* random) {
  for (const int n : {1, 14, 32, 33, 100, 143}) {
    const auto x = RandomFloats(random, n, {110, 134});
    const auto w = RandomFloats(random, n, {125, 128});
    DumpElementwise("rms_norm", {{1e-5f}, x, w},
                    [&](const ElementwiseKernel& k) {
                      Floats y(n);
                      k.rms_norm(x.data(), w.data(), n, 1e-5f, y.data());
                      return y;
                    });
    DumpElementwise("l2_norm", {{1e-6f, 0.25f}, x},
                    [&](const ElementwiseKernel& k) {
                      Floats y(n);
                      k.l2_norm(x.data(), n, 1e-6f, 0.25f, y.data());
                      return y;
                    });
    DumpElementwise("dot", {x, w}, [&](const ElementwiseKernel& k) {
      return Floats{k.dot_lanes(x.data(), w.data(), n)};
    });
    const auto taps = RandomFloats(random, size_t{4} * n);
    const auto u = RandomFloats(random, size_t{4} * n);
    DumpElementwise("conv", {taps, u}, [&](const ElementwiseKernel& k) {
      Floats y(n);
      k.short_conv(taps.data(), &u[0], &u[n], &u[2 * n], &u[3 * n], n,
                   y.data());
      return y;
    });
  }
}

void DumpKda(XorShift64* random, int dim) {
  const auto qkv = RandomFloats(random, size_t{3} * dim, {118, 126});
  auto decay = RandomFloats(random, dim, {124, 126});
  for (float& a : decay) a = std::fabs(a);
  const auto state = RandomFloats(random, size_t(dim) * dim);
  DumpElementwise("kda", {{0.625f}, qkv, decay, state},
                  [&](const ElementwiseKernel& k) {
                    Floats result(dim);
                    result.insert(result.end(), state.begin(), state.end());
                    k.kda_step({.dim = dim,
                                .q = qkv.data(),
                                .k = &qkv[dim],
                                .v = &qkv[2 * dim],
                                .decay = decay.data(),
                                .beta = 0.625f,
                                .state = &result[dim],
                                .out = result.data()});
                    return result;
                  });
}

void DumpAttention(XorShift64* random, int positions, int key_dim,
                   int value_dim) {
  const int queries = 2;
  const auto q = RandomFloats(random, size_t{queries} * key_dim, {118, 128});
  const auto keys =
      RandomFloats(random, size_t(positions) * key_dim, {118, 127});
  DumpElementwise("attention",
                  {{float(key_dim), float(value_dim), 0.25f}, q, keys},
                  [&](const ElementwiseKernel& k) {
                    Floats scores(size_t{queries} * positions);
                    Floats out(size_t{queries} * value_dim);
                    k.attention({.num_queries = queries,
                                 .query = q.data(),
                                 .keys = keys.data(),
                                 .key_dim = key_dim,
                                 .value_dim = value_dim,
                                 .num_positions = positions,
                                 .scale = 0.25f,
                                 .scores = scores.data(),
                                 .out = out.data()});
                    return out;
                  });
}

void DumpResidual(XorShift64* random, int n, int hidden) {
  const auto candidates = RandomFloats(random, size_t(n) * hidden);
  const auto nw = RandomFloats(random, hidden, {118, 125});
  DumpElementwise("residual", {{1e-5f}, nw, candidates},
                  [&](const ElementwiseKernel& k) {
                    std::vector<const float*> rows;
                    for (int j = 0; j < n; ++j) {
                      rows.push_back(&candidates[size_t(j) * hidden]);
                    }
                    Floats out(hidden);
                    k.attention_residual(rows.data(), n, nw.data(), hidden,
                                         1e-5f, out.data());
                    return out;
                  });
}

}  // namespace
}  // namespace deltafin

int main() {
  deltafin::SetContractFloatingPointMode();
  deltafin::XorShift64 random(12345);
  deltafin::DumpProducts(&random);
  deltafin::DumpQuantizedRows(&random);
  deltafin::DumpFunctions(&random);
  deltafin::DumpReductions(&random);
  for (const int dim : {5, 16, 18}) deltafin::DumpKda(&random, dim);
  deltafin::DumpAttention(&random, 7, 70, 40);
  deltafin::DumpAttention(&random, 300, 12, 8);
  for (const int n : {1, 4}) deltafin::DumpResidual(&random, n, 45);
}
