#include "spine_node/cpu/sequence_state.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace deltafin {
namespace {

constexpr size_t kLineFloats = 16;  // heads start on cache lines

size_t PageBytes() {
  static const size_t bytes = sysconf(_SC_PAGESIZE);
  return bytes;
}

size_t RoundUp(size_t value, size_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

SequenceLayout::SequenceLayout(const ModelSpec& spec, int first_layer)
    : kda_heads(spec.kda_num_heads),
      kda_dim(spec.kda_head_dim),
      key_dim(spec.kv_lora_rank + spec.qk_rope_head_dim) {
  constexpr int kNone = -1;
  for (int layer = 0; layer < spec.num_hidden_layers; ++layer) {
    if (layer < first_layer) {
      kind_index.push_back(kNone);
    } else {
      kind_index.push_back(
          spec.attention[layer] == AttentionKind::kKda ? num_kda++ : num_mla++);
    }
  }
  const size_t dim = kda_dim;
  kda_head_floats =
      RoundUp(dim * dim, kLineFloats) + RoundUp(9 * dim, kLineFloats);
  draft_row_floats = RoundUp(4 * dim + 1, kLineFloats);
}

int64_t SequenceLayout::fixed_bytes() const {
  return sizeof(float) * kda_head_floats * kda_heads * num_kda;
}

int64_t SequenceLayout::token_bytes() const {
  return sizeof(float) * key_dim * num_mla;
}

int64_t SequenceLayout::draft_bytes() const {
  return sizeof(float) * draft_row_floats * kMaxDrafts * kda_heads * num_kda;
}

absl::StatusOr<LatentCache> LatentCache::Create(int num_layers, int key_dim,
                                                int64_t max_tokens) {
  LatentCache cache;
  cache.num_layers_ = num_layers;
  cache.row_bytes_ = sizeof(float) * key_dim;
  cache.layer_bytes_ = RoundUp(cache.row_bytes_ * max_tokens, PageBytes());
  const size_t bytes = cache.layer_bytes_ * num_layers;
  if (bytes == 0) return cache;
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no address space for the latent cache of ", max_tokens,
                     " tokens (", bytes, " bytes): ", std::strerror(errno)));
  }
  cache.base_ = static_cast<uint8_t*>(base);
  return cache;
}

LatentCache::~LatentCache() {
  if (base_ != nullptr) munmap(base_, layer_bytes_ * num_layers_);
}

LatentCache::LatentCache(LatentCache&& other) noexcept {
  *this = std::move(other);
}

LatentCache& LatentCache::operator=(LatentCache&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(num_layers_, other.num_layers_);
  std::swap(row_bytes_, other.row_bytes_);
  std::swap(layer_bytes_, other.layer_bytes_);
  return *this;
}

float* LatentCache::layer(int index) {
  return reinterpret_cast<float*>(base_ + layer_bytes_ * index);
}

const float* LatentCache::layer(int index) const {
  return reinterpret_cast<const float*>(base_ + layer_bytes_ * index);
}

void LatentCache::CopyFrom(const LatentCache& other, int64_t num_tokens) {
  for (int i = 0; i < num_layers_; ++i) {
    std::memcpy(layer(i), other.layer(i), row_bytes_ * num_tokens);
  }
}

void LatentCache::Release(int64_t num_tokens) {
  const size_t kept = RoundUp(row_bytes_ * num_tokens, PageBytes());
  if (base_ == nullptr || kept >= layer_bytes_) return;
  for (int i = 0; i < num_layers_; ++i) {
    madvise(base_ + layer_bytes_ * i + kept, layer_bytes_ - kept,
            MADV_DONTNEED);
  }
}

absl::StatusOr<std::unique_ptr<CpuSequenceState>> CpuSequenceState::Create(
    const SequenceLayout& layout, int64_t max_tokens,
    int64_t generation_bytes) {
  ASSIGN_OR_RETURN(
      LatentCache latents,
      LatentCache::Create(layout.num_mla, layout.key_dim, max_tokens));
  auto state = std::unique_ptr<CpuSequenceState>(
      new CpuSequenceState(layout, std::move(latents)));
  ASSIGN_OR_RETURN(state->kda_, AlignedBuffer::Allocate(layout.fixed_bytes()));
  state->max_tokens_ = max_tokens;
  state->generation_bytes_ = generation_bytes;
  return state;
}

int64_t CpuSequenceState::bytes() const {
  const int64_t copies = static_cast<int64_t>(generations_.size());
  return layout_.fixed_bytes() * (1 + copies) +
         layout_.token_bytes() * num_tokens_ +
         static_cast<int64_t>(draft_rows_.size());
}

KdaHeadState CpuSequenceState::kda(int layer, int head) {
  const size_t index =
      size_t{1} * layout_.kind_index[layer] * layout_.kda_heads + head;
  float* matrix = kda_.as<float>() + index * layout_.kda_head_floats;
  const size_t dim = layout_.kda_dim;
  return {matrix, matrix + RoundUp(dim * dim, kLineFloats)};
}

float* CpuSequenceState::draft_rows(int layer, int head) {
  const size_t index =
      size_t{1} * layout_.kind_index[layer] * layout_.kda_heads + head;
  return draft_rows_.as<float>() +
         index * kMaxDrafts * layout_.draft_row_floats;
}

float* CpuSequenceState::latents(int layer) {
  return latents_.layer(layout_.kind_index[layer]);
}

void CpuSequenceState::FinishStep(int64_t added_tokens, int num_drafts) {
  num_tokens_ += added_tokens;
  num_drafts_ = num_drafts;
  settled_ = true;
}

absl::Status CpuSequenceState::ReserveDrafts() {
  if (draft_rows_.size() > 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(draft_rows_, AlignedBuffer::Allocate(layout_.draft_bytes()));
  return absl::OkStatus();
}

void CpuSequenceState::TakeBack(int num_tokens) {
  num_tokens_ -= num_tokens;
  num_drafts_ -= num_tokens;
}

absl::StatusOr<std::unique_ptr<CpuSequenceState>> CpuSequenceState::Fork(
    int64_t max_tokens) const {
  ASSIGN_OR_RETURN(auto copy, Create(layout_, max_tokens, generation_bytes_));
  copy->latents_.CopyFrom(latents_, num_tokens_);
  if (kda_.size() > 0) {
    std::memcpy(copy->kda_.data(), kda_.data(), kda_.size());
  }
  copy->num_tokens_ = num_tokens_;
  if (num_drafts_ > 0) {
    RETURN_IF_ERROR(copy->ReserveDrafts());
    std::memcpy(copy->draft_rows_.data(), draft_rows_.data(),
                draft_rows_.size());
    copy->num_drafts_ = num_drafts_;
  }
  return copy;
}

absl::Status CpuSequenceState::RetainGeneration() {
  if (num_drafts_ > 0) {
    return absl::FailedPreconditionError(
        "drafts of the last step are not part of the state yet");
  }
  const int64_t bytes = layout_.fixed_bytes();
  if (bytes == 0 || bytes > generation_bytes_) return absl::OkStatus();
  if (!generations_.empty() && generations_.back()->num_tokens == num_tokens_) {
    return absl::OkStatus();
  }
  while ((static_cast<int64_t>(generations_.size()) + 1) * bytes >
         generation_bytes_) {
    generations_.pop_front();
  }
  auto generation = std::make_shared<Generation>();
  generation->num_tokens = num_tokens_;
  ASSIGN_OR_RETURN(generation->kda, AlignedBuffer::Allocate(bytes));
  std::memcpy(generation->kda.data(), kda_.data(), bytes);
  generations_.push_back(std::move(generation));
  return absl::OkStatus();
}

int64_t CpuSequenceState::TruncateTo(int64_t num_tokens) {
  if (settled_ && num_tokens >= num_tokens_) return num_tokens_;
  num_drafts_ = 0;
  while (!generations_.empty() &&
         generations_.back()->num_tokens > num_tokens) {
    generations_.pop_back();
  }
  if (layout_.num_kda == 0) {
    num_tokens_ = std::min(num_tokens, num_tokens_);
  } else if (generations_.empty()) {
    std::memset(kda_.data(), 0, layout_.fixed_bytes());
    num_tokens_ = 0;
  } else {
    std::memcpy(kda_.data(), generations_.back()->kda.data(),
                layout_.fixed_bytes());
    num_tokens_ = generations_.back()->num_tokens;
  }
  latents_.Release(num_tokens_);
  settled_ = true;
  return num_tokens_;
}

}  // namespace deltafin
