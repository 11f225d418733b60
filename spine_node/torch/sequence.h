// spine_node/torch/sequence.h
//
// State of one sequence on a libtorch device: KDA matrices and convolution
// history, MLA latent cache, retained generations.
#pragma once

#include <ATen/ATen.h>

#include <deque>
#include <vector>

#include "spine_node/torch_abi.h"

namespace deltafin::torch_spine {

// A copy of the handles is a snapshot: tensors are replaced, and written in
// place only by Own.
struct KdaState {
  // Makes every tensor this state's alone, for writing in place.
  void Own();

  at::Tensor matrix;                  // [heads, dim, dim]
  at::Tensor conv_q, conv_k, conv_v;  // [3, width]
};

// Rows [0, length) of `rows` hold latent then rope; capacity doubles as needed.
struct MlaState {
  at::Tensor rows;  // [capacity, latent + rope]
  int64_t length = 0;

  // Room for `count` rows more.
  void Reserve(int64_t count);
  // Appends [T, latent + rope] and returns all rows, [length, latent + rope].
  at::Tensor Append(const at::Tensor& added);
};

class Sequence {
 public:
  // With states of layers [0, num_layers).
  Sequence(const DeltafinModel& model, int num_layers, at::Device device);

  int64_t num_tokens() const { return num_tokens_; }
  int64_t bytes() const;
  KdaState& kda(int layer) { return kda_[layer]; }
  MlaState& mla(int layer) { return mla_[layer]; }

  // The step that fed `count` ids is complete.
  void Advance(int64_t count) { num_tokens_ += count; }

  // Keeps the KDA states as they are now; drops the oldest over `max_bytes`.
  void RetainGeneration(int64_t max_bytes);
  // Back to the newest generation at or before num_tokens; returns its length.
  int64_t TruncateTo(int64_t num_tokens);
  // A copy that shares nothing.
  Sequence Clone() const;

 private:
  struct Generation {
    int64_t num_tokens = 0;
    std::vector<KdaState> kda;
  };

  int64_t num_tokens_ = 0;
  std::vector<KdaState> kda_;  // [layers], empty tensors at MLA layers
  std::vector<MlaState> mla_;  // [layers], empty at KDA layers
  std::vector<KdaState> initial_;
  std::deque<Generation> generations_;
};

}  // namespace deltafin::torch_spine
