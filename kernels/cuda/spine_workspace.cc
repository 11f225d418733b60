#include "kernels/cuda/spine_workspace.h"

#include <algorithm>

namespace deltafin::cuda {
namespace {

constexpr size_t kAlignment = 256;
constexpr int kTokens = kSpineTokens;
// Rows of 32 (token, head) pairs and splits that fill any card twice.
constexpr int64_t kMlaPartRows = 264 * 32;

// Gives pieces of one allocation: first counts, then, with a base, places.
class Pieces {
 public:
  explicit Pieces(uint8_t* base) : base_(base) {}

  template <typename T>
  void Take(size_t count, T*& piece) {
    piece = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + size_);
    size_ += (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
  }
  void Take(int cols, PreparedView& view) {
    const int chunks = PreparedChunks(cols);
    Take(SplitBytes(chunks), view.split);
    Take(LimbBytes(chunks), view.limbs);
    Take(FactorBytes(chunks) / sizeof(float), view.factors);
  }
  size_t size() const { return size_; }

 private:
  uint8_t* base_;
  size_t size_ = 0;
};

int RowBlocks(std::initializer_list<int> rows) {
  int blocks = 0;
  for (const int r : rows)
    blocks += (r + kSpineBlockRows - 1) / kSpineBlockRows;
  return blocks;
}

std::array<int, kNumSpineProducts> RowBlocksOf(const CudaSpineShape& s) {
  const int width = s.kda_num_heads * s.kda_head_dim;
  const int values = s.num_attention_heads * s.v_head_dim;
  const int queries =
      s.num_attention_heads * (s.qk_nope_head_dim + s.qk_rope_head_dim);
  const int feed = std::max(s.dense_width, s.shared_width);
  std::array<int, kNumSpineProducts> blocks = {};
  blocks[kInProduct] = std::max(
      RowBlocks({width, width, width, width, s.kda_head_dim, s.kda_num_heads}),
      RowBlocks({s.q_lora_rank, s.kv_lora_rank + s.qk_rope_head_dim}));
  blocks[kFirstGateProduct] = RowBlocks({values});
  blocks[kSecondGateProduct] = RowBlocks({values});
  blocks[kThirdGateProduct] = RowBlocks({values});
  blocks[kQueryProduct] = RowBlocks({queries});
  blocks[kOutProduct] = RowBlocks({s.hidden_size});
  blocks[kRouteProduct] = RowBlocks({s.num_experts, s.latent_size});
  blocks[kGateUpProduct] = RowBlocks({feed, feed});
  blocks[kDownProduct] = RowBlocks({s.hidden_size});
  blocks[kLatentUpProduct] = RowBlocks({s.hidden_size});
  blocks[kHeadProduct] = RowBlocks({s.vocab_size});
  return blocks;
}

void Place(const CudaSpineShape& s, const SpineTarget& target, Pieces& pieces,
           SpineWorkspace& w) {
  const int width = std::max(s.kda_num_heads * s.kda_head_dim,
                             s.num_attention_heads * s.v_head_dim);
  pieces.Take(size_t{kTokens} * s.hidden_size, w.prefix);
  w.snapshots.resize(s.num_snapshots);
  for (float*& snapshot : w.snapshots) {
    pieces.Take(size_t{kTokens} * s.hidden_size, snapshot);
  }
  pieces.Take(s.hidden_size, w.input);
  pieces.Take(width, w.attended);
  pieces.Take(s.q_lora_rank, w.q_low);
  pieces.Take(std::max(s.dense_width, s.shared_width), w.activated);
  pieces.Take(s.latent_size, w.latent);
  pieces.Take(size_t{kTokens} * width, w.attention);
  pieces.Take(size_t{kTokens} * s.num_attention_heads *
                  (s.kv_lora_rank + s.qk_rope_head_dim),
              w.queries);
  const int64_t part_rows =
      std::max<int64_t>(kMlaPartRows, kTokens * s.num_attention_heads);
  w.mla_parts_floats = part_rows * s.kv_lora_rank;
  pieces.Take(w.mla_parts_floats, w.mla_parts);
  pieces.Take(2 * part_rows, w.mla_stats);
  pieces.Take(size_t{kTokens} * s.latent_size, w.sums);
  pieces.Take(size_t{kTokens} * s.vocab_size, w.logits);
  const auto blocks = RowBlocksOf(s);
  for (int p = 0; p < kNumSpineProducts; ++p) {
    const size_t slots = blocks[p] + ProductBlocks(target, INT32_MAX);
    pieces.Take(slots * kTokens * kSpineBlockRows, w.partials[p]);
  }
  pieces.Take(1, w.not_finite);
  pieces.Take(size_t{kTokens} * s.top_k, w.experts);
  pieces.Take(size_t{kTokens} * s.top_k, w.weights);
  pieces.Take(size_t{kTokens} * s.latent_size, w.latents);
}

}  // namespace

std::unique_ptr<SpineWorkspace> SpineWorkspace::Create(
    int card, const CudaSpineShape& shape, const SpineTarget& target,
    std::string* why) {
  auto workspace = std::make_unique<SpineWorkspace>();
  Pieces count(nullptr);
  Place(shape, target, count, *workspace);
  workspace->memory = CudaMemory::Allocate(card, count.size(), why);
  if (workspace->memory == nullptr) return nullptr;
  Pieces pieces(workspace->memory->data());
  Place(shape, target, pieces, *workspace);
  return workspace;
}

}  // namespace deltafin::cuda
