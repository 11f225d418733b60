#include "tests/unit/kernels/expert_operations.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "kernels/reference/reference_tables.h"
#if defined(__x86_64__)
#include "kernels/avx2/avx2_tables.h"
#include "kernels/avx512/avx512_tables.h"
#elif defined(__aarch64__)
#include "kernels/neon/neon_tables.h"
#endif

namespace deltafin {
namespace {

struct AlignedDelete {
  void operator()(float* p) const { ::operator delete[](p, kAlignment); }
  static constexpr std::align_val_t kAlignment{64};
};
using AlignedFloats = std::unique_ptr<float[], AlignedDelete>;

AlignedFloats MakeAligned(size_t n) {
  return AlignedFloats(new (AlignedDelete::kAlignment) float[n]);
}

}  // namespace

const ExpertOperations* FindExpertOperations(std::string_view target) {
  if (target == "reference") return &kReferenceExpertOperations;
#if defined(__x86_64__)
  if (target == "avx2") return &kAvx2ExpertOperations;
  if (target == "avx512") return &kAvx512ExpertOperations;
#elif defined(__aarch64__)
  if (target == "neon") return &kNeonExpertOperations;
  if (target == "neon-dot") return &kNeonDotExpertOperations;
#endif
  return nullptr;
}

bool MultiplyTiles(const ExpertOperations& ops,
                   const std::vector<uint8_t>& tiles, int rows, int cols,
                   const float* x, int num_tokens, std::vector<float>* y) {
  std::vector<const float*> tokens(num_tokens);
  for (int t = 0; t < num_tokens; ++t) tokens[t] = x + size_t(t) * cols;
  const AlignedFloats prepared =
      MakeAligned(ExpertPreparedBytes(ops, cols, num_tokens) / sizeof(float));
  if (PrepareExpertTokens(ops, tokens.data(), cols, num_tokens, prepared.get(),
                          nullptr) != KernelStatus::kOk) {
    return false;
  }
  const AlignedFloats block = MakeAligned(size_t{256} * num_tokens);
  y->assign(size_t(num_tokens) * rows, 0);
  const uint8_t* at = tiles.data();
  for (int row = 0; row < rows; row += 256) {
    const int n = std::min(256, rows - row);
    ops.multiply_block(at, n, cols, num_tokens,
                       reinterpret_cast<const int32_t*>(prepared.get()),
                       block.get());
    at += size_t(n) * cols / 32 * 17;
    for (int t = 0; t < num_tokens; ++t) {
      std::memcpy(y->data() + size_t(t) * rows + row,
                  block.get() + size_t{256} * t, sizeof(float) * n);
    }
  }
  return true;
}

}  // namespace deltafin
