// spine_node/cpu/sequence_state.h
//
// State of one sequence in a CPU spine: KDA matrices and short-convolution
// history of every KDA layer, absorbed latent cache of every MLA layer
// (docs/model.md 5). Latent pages are taken from the system as tokens arrive.
// Not thread-safe, but different heads may be worked on by different threads.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/aligned_buffer.h"
#include "common/base/model_spec.h"
#include "spine_node/spine_types.h"

namespace deltafin {

// Drafts of one step that a sequence can keep the inputs of.
inline constexpr int kMaxDrafts = 7;

// Where the parts of the state lie; the same for all sequences of a model.
struct SequenceLayout {
  // Of layers first_layer and later; those before have no state here.
  explicit SequenceLayout(const ModelSpec& spec, int first_layer = 0);

  int kda_heads = 0;
  int kda_dim = 0;
  int key_dim = 0;              // latent then rope
  int num_kda = 0;              // layers
  int num_mla = 0;              // layers
  std::vector<int> kind_index;  // [layers] index among those of its kind
  size_t kda_head_floats = 0;   // S [d, d], then history [3][3][d]
  size_t draft_row_floats = 0;  // raw q k v and decay [4][d], then beta

  int64_t fixed_bytes() const;  // KDA part
  int64_t token_bytes() const;  // MLA part
  int64_t draft_bytes() const;  // KDA inputs of kMaxDrafts tokens
};

// The KDA state of one head of one layer.
struct KdaHeadState {
  float* matrix = nullptr;   // S [d (key), d (value)]
  float* history = nullptr;  // [q k v][3, oldest first][d] raw projections
};

// Address space for one contiguous [max_tokens, key_dim] array per MLA layer.
class LatentCache {
 public:
  static absl::StatusOr<LatentCache> Create(int num_layers, int key_dim,
                                            int64_t max_tokens);
  ~LatentCache();
  LatentCache(LatentCache&& other) noexcept;
  LatentCache& operator=(LatentCache&& other) noexcept;

  float* layer(int index);
  const float* layer(int index) const;
  void CopyFrom(const LatentCache& other, int64_t num_tokens);
  // Gives pages beyond num_tokens back to the system.
  void Release(int64_t num_tokens);

 private:
  LatentCache() = default;

  uint8_t* base_ = nullptr;
  int num_layers_ = 0;
  size_t row_bytes_ = 0;
  size_t layer_bytes_ = 0;  // whole pages
};

class CpuSequenceState : public SequenceState {
 public:
  // `layout` outlives the state. Errors: RESOURCE_EXHAUSTED.
  static absl::StatusOr<std::unique_ptr<CpuSequenceState>> Create(
      const SequenceLayout& layout, int64_t max_tokens,
      int64_t generation_bytes);

  int64_t num_tokens() const override { return num_tokens_; }
  int64_t bytes() const override;
  int64_t max_tokens() const { return max_tokens_; }

  // Of the tokens before the drafts of the last step.
  KdaHeadState kda(int layer, int head);
  // Raw inputs of one head, [kMaxDrafts][draft_row_floats]: of the drafts of
  // the last step, then of those of the step under way.
  float* draft_rows(int layer, int head);
  size_t draft_row_floats() const { return layout_.draft_row_floats; }
  size_t kda_head_floats() const { return layout_.kda_head_floats; }
  float* latents(int layer);  // [max_tokens, key_dim]

  // False between the start of a step and its end, and after a step that
  // failed, until the state is truncated.
  bool settled() const { return settled_; }
  void BeginStep() { settled_ = false; }
  // The last num_drafts of added_tokens may be taken back.
  void FinishStep(int64_t added_tokens, int num_drafts);
  // Room for draft_rows. Errors: RESOURCE_EXHAUSTED.
  absl::Status ReserveDrafts();
  // Drafts of the last step that were not taken back. kda() lacks them: the
  // next step feeds it draft_rows first.
  int num_drafts() const { return num_drafts_; }
  // REQUIRES: num_tokens <= num_drafts().
  void TakeBack(int num_tokens);

  // Without the generations. REQUIRES: settled, max_tokens >= num_tokens().
  absl::StatusOr<std::unique_ptr<CpuSequenceState>> Fork(
      int64_t max_tokens) const;
  // Errors: FAILED_PRECONDITION right after a step with drafts.
  absl::Status RetainGeneration();
  // Returns the length kept: at most `num_tokens`.
  int64_t TruncateTo(int64_t num_tokens);

 private:
  // KDA state after num_tokens tokens. The latent cache needs no copy: rows
  // below num_tokens never change.
  struct Generation {
    int64_t num_tokens = 0;
    AlignedBuffer kda;
  };

  CpuSequenceState(const SequenceLayout& layout, LatentCache latents)
      : layout_(layout), latents_(std::move(latents)) {}

  const SequenceLayout& layout_;
  LatentCache latents_;
  AlignedBuffer kda_;
  AlignedBuffer draft_rows_;  // empty until the first draft
  int num_drafts_ = 0;
  std::deque<std::shared_ptr<const Generation>> generations_;  // ascending
  int64_t max_tokens_ = 0;
  int64_t generation_bytes_ = 0;
  int64_t num_tokens_ = 0;
  bool settled_ = true;
};

}  // namespace deltafin
