#include "tests/testing/synthetic_values.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <string_view>
#include <vector>

#include "common/base/check.h"
#include "common/base/digest.h"
#include "common/base/status_macros.h"

namespace deltafin {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;

// splitmix64.
class Draws {
 public:
  explicit Draws(uint64_t key) : state_(key) {}
  uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

 private:
  uint64_t state_;
};

// A normal variable as the sum of four random bytes: mean 510, variance
// 4 (256^2 - 1) / 12.
constexpr int kSums = 4 * 255 + 1;
constexpr float kSumMean = 510.0f;
constexpr float kSumDeviation = 147.801f;

// Both sums of four bytes in a draw.
struct TwoSums {
  uint32_t first;
  uint32_t second;
};
TwoSums SumBytes(uint64_t draw) {
  constexpr uint64_t kEven = 0x00ff00ff00ff00ff;
  const uint64_t pairs = (draw & kEven) + ((draw >> 8) & kEven);
  const uint64_t sums = pairs + (pairs >> 16);
  return {static_cast<uint32_t>(sums & 0xffff),
          static_cast<uint32_t>((sums >> 32) & 0xffff)};
}

// How the values of a tensor are spread, by the end of its name.
// Source: reference/make_tiny.py.
enum class Scale { kAbsolute, kPerRootOfColumns };
struct Spread {
  std::string_view suffix;
  float mean;
  float deviation;
  Scale scale;
};
constexpr Spread kSpreads[] = {
    {"embed_tokens.weight", 0, 1, Scale::kAbsolute},
    {"lm_head.weight", 0, 2.5, Scale::kPerRootOfColumns},
    {"norm.weight", 1, 0.25, Scale::kAbsolute},
    {"res_proj.weight", 0, 0.8, Scale::kPerRootOfColumns},
    {"A_log", 0.29, 0.33, Scale::kAbsolute},
    {"dt_bias", -2.5, 1.5, Scale::kAbsolute},
    {"conv1d.weight", 0, 0.6, Scale::kAbsolute},
    {"gate.e_score_correction_bias", 0, 0.12, Scale::kAbsolute},
    {"self_attn.q_proj.weight", 0, 1.2, Scale::kPerRootOfColumns},
    {"self_attn.k_proj.weight", 0, 1.2, Scale::kPerRootOfColumns},
    {"self_attn.v_proj.weight", 0, 1.2, Scale::kPerRootOfColumns},
    {"self_attn.o_proj.weight", 0, 0.8, Scale::kPerRootOfColumns},
    {"self_attn.q_b_proj.weight", 0, 1.3, Scale::kPerRootOfColumns},
    {"self_attn.kv_a_proj_with_mqa.weight", 0, 1.2, Scale::kPerRootOfColumns},
    {"self_attn.kv_b_proj.weight", 0, 1.3, Scale::kPerRootOfColumns},
    {"mlp.gate_proj.weight", 0, 1.5, Scale::kPerRootOfColumns},
    {"mlp.up_proj.weight", 0, 3, Scale::kPerRootOfColumns},
    {"mlp.down_proj.weight", 0, 0.25, Scale::kPerRootOfColumns},
    {"routed_expert_up_proj.weight", 0, 0.35, Scale::kPerRootOfColumns},
    {"shared_experts.gate_proj.weight", 0, 1.5, Scale::kPerRootOfColumns},
    {"shared_experts.up_proj.weight", 0, 3, Scale::kPerRootOfColumns},
    {"shared_experts.down_proj.weight", 0, 0.12, Scale::kPerRootOfColumns},
    {"w1.weight_scale", 0, 1.5, Scale::kPerRootOfColumns},
    {"w2.weight_scale", 0, 1, Scale::kPerRootOfColumns},
    {"w3.weight_scale", 0, 2.5, Scale::kPerRootOfColumns},
    {"", 0, 1, Scale::kPerRootOfColumns},  // every other linear layer
};

const Spread& SpreadOf(const TensorSpec& tensor) {
  return *std::find_if(std::begin(kSpreads), std::end(kSpreads),
                       [&tensor](const Spread& spread) {
                         return tensor.name.ends_with(spread.suffix);
                       });
}

float DeviationOf(const Spread& spread, int64_t columns) {
  if (spread.scale == Scale::kAbsolute) return spread.deviation;
  return spread.deviation / std::sqrt(static_cast<float>(columns));
}

uint16_t RoundToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// Fills `out` with draws mapped through `values`, indexed by a sum of bytes.
template <typename T>
void FillNormal(const std::array<T, kSums>& values, Draws& draws,
                std::span<uint8_t> out) {
  for (size_t at = 0; at < out.size(); at += 2 * sizeof(T)) {
    const TwoSums sums = SumBytes(draws.Next());
    const T pair[2] = {values[sums.first], values[sums.second]};
    std::memcpy(out.data() + at, pair, std::min(sizeof(pair), out.size() - at));
  }
}

// Fills one piece after the other.
using Fill = std::function<void(std::span<uint8_t>)>;

Fill NormalFill(const TensorSpec& tensor, Draws& draws) {
  const Spread& spread = SpreadOf(tensor);
  const float step = DeviationOf(spread, tensor.shape.back()) / kSumDeviation;
  std::array<float, kSums> f32;
  for (int sum = 0; sum < kSums; ++sum) {
    const float centred = static_cast<float>(sum) - kSumMean;
    f32[sum] = spread.mean + centred * step;
  }
  if (tensor.dtype == DType::kF32) {
    return
        [f32, &draws](std::span<uint8_t> out) { FillNormal(f32, draws, out); };
  }
  std::array<uint16_t, kSums> bf16;
  std::transform(f32.begin(), f32.end(), bf16.begin(), RoundToBf16);
  return
      [bf16, &draws](std::span<uint8_t> out) { FillNormal(bf16, draws, out); };
}

// MXFP4 codes: any byte is two of them, their root mean square is 2.926.
Fill CodeFill(Draws& draws) {
  return [&draws](std::span<uint8_t> out) {
    for (size_t at = 0; at < out.size(); at += 8) {
      const uint64_t draw = draws.Next();
      std::memcpy(out.data() + at, &draw, std::min<size_t>(8, out.size() - at));
    }
  };
}

// Scale bytes: the power of two that brings the codes to the wanted deviation,
// spread over three octaves.
Fill ScaleFill(const TensorSpec& tensor, Draws& draws) {
  constexpr float kCodeDeviation = 2.926f;
  const int64_t columns = tensor.shape.back() * kMxfp4Group;
  const float wanted = DeviationOf(SpreadOf(tensor), columns) / kCodeDeviation;
  const int base = 127 + std::ilogb(wanted) - 1;
  return [base, &draws](std::span<uint8_t> out) {
    for (uint8_t& scale : out) {
      scale = static_cast<uint8_t>(base + draws.Next() % 3);
    }
  };
}

Fill FillFor(const TensorSpec& tensor, Draws& draws) {
  if (tensor.dtype != DType::kU8) return NormalFill(tensor, draws);
  if (tensor.name.ends_with("_packed")) return CodeFill(draws);
  return ScaleFill(tensor, draws);
}

uint64_t KeyOf(const TensorSpec& tensor, uint64_t seed) {
  const Xxh128 name =
      Xxh3Digest({reinterpret_cast<const uint8_t*>(tensor.name.data()),
                  tensor.name.size()});
  return Draws(name.low ^ Draws(seed).Next()).Next();
}

}  // namespace

absl::Status StreamSyntheticTensor(
    const ModelSpec& spec, const TensorSpec& tensor, uint64_t seed,
    const std::function<absl::Status(std::span<const uint8_t>)>& append) {
  Draws draws(KeyOf(tensor, seed));
  const Fill fill = FillFor(tensor, draws);
  std::vector<uint8_t> piece;
  for (uint64_t at = 0; at < tensor.bytes(); at += piece.size()) {
    piece.resize(std::min<uint64_t>(kPieceBytes, tensor.bytes() - at));
    fill(piece);
    if (tensor.name.ends_with("A_log")) {
      // Stored padded with zeros from num_heads to head_dim.
      const size_t used = sizeof(float) * spec.kda_num_heads;
      if (piece.size() > used) std::fill(piece.begin() + used, piece.end(), 0);
    }
    RETURN_IF_ERROR(append(piece));
  }
  return absl::OkStatus();
}

}  // namespace deltafin
