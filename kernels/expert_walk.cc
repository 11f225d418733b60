#include "kernels/expert_walk.h"

#include <algorithm>

#include "kernels/mxfp4.h"

namespace deltafin {
namespace {

// Tokens of one pass over the weights. Sixteen rows of sums (28 KB each) fit in
// a 1 MB second-level cache beside the stream (docs/performance.md).
constexpr int kPassTokens = 16;
constexpr size_t kAlignment = 64;

size_t AlignUp(size_t n) {
  return (n + kAlignment - 1) / kAlignment * kAlignment;
}

// Tokens of the block that token `t` of `num_tokens` belongs to.
int BlockTokens(int t, int num_tokens) {
  return t % 2 == 0 && t + 1 == num_tokens ? 1 : 2;
}

size_t TokenWords(const ExpertOperations& ops, int cols) {
  return static_cast<size_t>(cols / kMxfp4Group) * ops.group_words;
}

// Quantises row t of num_tokens into `prepared`, which starts at token 0.
bool QuantizeToken(const ExpertOperations& ops, const float* x, int cols, int t,
                   int num_tokens, int32_t* prepared) {
  const int lane = t % 2;
  return ops.quantize(x, cols, BlockTokens(t, num_tokens), lane,
                      prepared + (t - lane) * TokenWords(ops, cols));
}

// Tokens [first, first + count) of a call through all its slices.
class SlicePass {
 public:
  SlicePass(const ExpertOperations& ops, const ExpertSliceArgs& args, int first)
      : ops_(ops),
        args_(args),
        first_(first),
        count_(std::min(kPassTokens, args.num_tokens - first)),
        bad_(count_) {
    gate_ = static_cast<float*>(args.scratch);
    up_ = gate_ + count_ * kTileBlockRows;
    limbs_ = reinterpret_cast<int32_t*>(up_ + count_ * kTileBlockRows);
  }

  // The lowest token in error, or -1.
  int Run() {
    const uint8_t* slice = args_.slices;
    for (int s = args_.run.first; s < args_.run.first + args_.run.count; ++s) {
      const size_t bytes = args_.shape.slice_matrix_bytes(s);
      const int columns = args_.shape.slice_columns(s);
      GateAndUp(slice, columns, bytes);
      Activate(columns);
      Down(slice + 2 * bytes, columns);
      slice += 3 * bytes;
    }
    return bad_ == count_ ? -1 : first_ + bad_;
  }

 private:
  void GateAndUp(const uint8_t* gate, int columns, size_t bytes) {
    const int latent = args_.shape.latent_size;
    const int32_t* x = static_cast<const int32_t*>(args_.prepared) +
                       first_ * TokenWords(ops_, latent);
    ops_.multiply_block(gate, columns, latent, count_, x, gate_);
    ops_.multiply_block(gate + bytes, columns, latent, count_, x, up_);
  }

  // gate, up -> integer limbs of h = SiTU(gate, up).
  void Activate(int columns) {
    for (int t = 0; t < count_; ++t) {
      float* gate = gate_ + t * kTileBlockRows;
      const float* up = up_ + t * kTileBlockRows;
      bool ok = ops_.all_finite(gate, columns) && ops_.all_finite(up, columns);
      ops_.elementwise->situ(gate, up, columns, args_.situ, gate);
      ok &= QuantizeToken(ops_, gate, columns, t, count_, limbs_);
      Note(t, ok);
    }
  }

  void Down(const uint8_t* down, int columns) {
    const int latent = args_.shape.latent_size;
    float* y = gate_;
    for (int row = 0; row < latent; row += kTileBlockRows) {
      const int rows = std::min(kTileBlockRows, latent - row);
      ops_.multiply_block(down, rows, columns, count_, limbs_, y);
      down +=
          static_cast<size_t>(rows) * (columns / kMxfp4Group) * kGroupRowBytes;
      for (int t = 0; t < count_; ++t) {
        Note(t,
             ops_.add_fixed(args_.weights[first_ + t], y + t * kTileBlockRows,
                            rows, args_.sums[first_ + t] + row));
      }
    }
  }

  void Note(int t, bool ok) {
    if (!ok) bad_ = std::min(bad_, t);
  }

  const ExpertOperations& ops_;
  const ExpertSliceArgs& args_;
  const int first_;
  const int count_;
  int bad_;         // lowest token in error, count_ if none
  float* gate_;     // [count_, 256]; later h, then rows of down
  float* up_;       // [count_, 256]
  int32_t* limbs_;  // prepared h
};

}  // namespace

size_t ExpertPreparedBytes(const ExpertOperations& ops, int latent_size,
                           int num_tokens) {
  return AlignUp(TokenWords(ops, latent_size) * num_tokens * sizeof(int32_t));
}

KernelStatus PrepareExpertTokens(const ExpertOperations& ops,
                                 const float* const* rows, int latent_size,
                                 int num_tokens, void* out, int* bad_token) {
  for (int t = 0; t < num_tokens; ++t) {
    if (!QuantizeToken(ops, rows[t], latent_size, t, num_tokens,
                       static_cast<int32_t*>(out))) {
      if (bad_token != nullptr) *bad_token = t;
      return KernelStatus::kNotFinite;
    }
  }
  return KernelStatus::kOk;
}

size_t ExpertScratchBytes(const ExpertOperations& ops, const ExpertShape& shape,
                          int num_tokens) {
  const int columns = std::min(shape.intermediate_size, kSliceColumns);
  const size_t token_bytes = 2 * kTileBlockRows * sizeof(float) +
                             TokenWords(ops, columns) * sizeof(int32_t);
  return AlignUp(std::min(num_tokens, kPassTokens) * token_bytes);
}

KernelStatus RunExpertSlices(const ExpertOperations& ops,
                             const ExpertSliceArgs& args, int* bad_token) {
  for (int first = 0; first < args.num_tokens; first += kPassTokens) {
    const int bad = SlicePass(ops, args, first).Run();
    if (bad >= 0) {
      if (bad_token != nullptr) *bad_token = bad;
      return KernelStatus::kOverflow;
    }
  }
  return KernelStatus::kOk;
}

}  // namespace deltafin
