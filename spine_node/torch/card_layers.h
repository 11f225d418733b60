// spine_node/torch/card_layers.h
//
// Steps of few tokens on a CUDA device by our own kernels
// (kernels/cuda/spine_card.h), on the weights and states of a TorchSpine.
// Throws SpineError.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/spine_card.h"
#include "spine_node/torch/sequence.h"
#include "spine_node/torch/weights.h"
#include "spine_node/torch_abi.h"

namespace deltafin::torch_spine {

class CardLayers {
 public:
  // Null with *why in one sentence where our kernels cannot be used: not built
  // in, another model, another device. The weights must outlive this at their
  // addresses.
  static std::unique_ptr<CardLayers> Create(
      const DeltafinModel& model, at::Device device,
      const std::vector<LayerWeights>& layers, const HeadWeights& head,
      std::string* why);

  static constexpr int64_t kMaxTokens = kCudaSpineTokens;

  // Part of a sequence in a step.
  struct Part {
    Sequence* sequence;
    int64_t count;
  };

  // rows: embedding [T, H] on the host.
  void Begin(const float* rows, int64_t num_tokens);
  void Attend(int layer, const std::vector<Part>& parts);
  void DenseMlp(int layer);
  DeltafinRouted Route(int layer);
  void SharedExperts(int layer);
  void AddRoutedExperts(int layer, const int64_t* sums);
  // All rows of the step, on the host.
  at::Tensor Logits();
  at::Tensor Prefix();
  std::vector<at::Tensor> Snapshots();

 private:
  CardLayers(const DeltafinModel& model,
             const std::vector<LayerWeights>& layers, const HeadWeights& head);
  void Require(bool done) const;
  at::Tensor Fetch(const float* rows, int64_t width);

  const DeltafinModel& model_;
  std::vector<CudaSpineLayer> layers_;
  CudaSpineHead head_;
  std::unique_ptr<CudaSpine> spine_;
  int64_t num_tokens_ = 0;  // of the step
  std::string why_;
};

}  // namespace deltafin::torch_spine
