// spine_node/torch/torch_spine.h
//
// The spine on libtorch: f32 activations, on cpu, cuda or mps; on CUDA, steps
// of few tokens by our own kernels (CardLayers). Mirrors spine_node/spine.h
// call by call. Within the golden tolerances of CpuSpine, not bit-equal to it:
// libtorch's products choose their own order of sums. Not thread-safe. Throws
// SpineError, and c10::Error from libtorch; torch_module.cc turns both into
// status codes.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "spine_node/torch/card_layers.h"
#include "spine_node/torch/sequence.h"
#include "spine_node/torch/weights.h"
#include "spine_node/torch_abi.h"

namespace deltafin::torch_spine {

class TorchSpine {
 public:
  // Reads all weights through `source`, which must outlive this.
  TorchSpine(const DeltafinModel& model, const DeltafinTorchOptions& options,
             const DeltafinWeightSource& source);

  const DeltafinModel& model() const { return model_; }
  at::Device device() const { return device_; }
  int num_layers() const { return static_cast<int>(layers_.size()); }
  int64_t weight_bytes() const { return weight_bytes_; }
  int64_t generation_bytes() const { return generation_bytes_; }

  void Embed(const DeltafinSlice* slices, int64_t num_slices);
  void Attend(int layer);
  void DenseMlp(int layer);
  DeltafinRouted Route(int layer);
  void SharedExperts(int layer);
  void AddRoutedExperts(int layer, const int64_t* sums);
  // Rows the slices asked for, [rows, vocab] on the host.
  const at::Tensor& Logits();
  // After the last layer that ran; valid until the next step.
  DeltafinRows Rows();
  void EndStep();
  void AbandonStep();

 private:
  struct StepSlice {
    Sequence* sequence;
    int64_t begin;  // first row
    int64_t count;  // rows
    int32_t logits;
  };

  at::Tensor WantedLogits();
  at::Tensor Kda(const KdaWeights& w, const at::Tensor& x, KdaState& state);
  at::Tensor Mla(const MlaWeights& w, const at::Tensor& x, MlaState& state);
  at::Tensor Mlp(const MlpWeights& w, const at::Tensor& x) const;
  at::Tensor MlpInput(const LayerWeights& w);
  void AddToPrefix(const at::Tensor& out, int layer, const char* what);
  at::Tensor WantedRows(const at::Tensor& hidden) const;

  std::vector<uint8_t> is_mla_;
  DeltafinModel model_;  // is_mla points into is_mla_
  const DeltafinWeightSource& source_;
  at::Device device_;
  int64_t generation_bytes_;
  int64_t weight_bytes_ = 0;
  std::vector<LayerWeights> layers_;
  HeadWeights head_;
  std::unique_ptr<CardLayers> card_;  // null: libtorch does everything

  // The step in flight.
  bool card_step_ = false;  // runs in card_
  std::vector<StepSlice> slices_;
  std::vector<at::Tensor> blocks_;  // snapshots, each [T, H]
  at::Tensor prefix_;               // [T, H], undefined right after a boundary
  at::Tensor mlp_input_;            // [T, H] normed input of the feed-forward
  at::Tensor shared_;               // [T, H] shared experts' output
  at::Tensor experts_, weights_, latent_;  // router output on the host
  at::Tensor logits_;
  std::vector<at::Tensor> rows_;  // of Rows, on the host
  std::vector<const float*> snapshot_rows_;
};

}  // namespace deltafin::torch_spine
