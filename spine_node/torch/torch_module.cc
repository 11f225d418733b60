// The module's C border (spine_node/torch_abi.h): converts, calls, turns
// exceptions into status codes.
#include <ATen/core/grad_mode.h>
#include <torch/csrc/api/include/torch/version.h>

#include <exception>
#include <memory>
#include <string>

#include "spine_node/torch/sequence.h"
#include "spine_node/torch/torch_spine.h"
#include "spine_node/torch/weights.h"

namespace deltafin::torch_spine {
namespace {

// What `void* spine` points at: lives even when the spine could not be made.
struct Handle {
  std::unique_ptr<TorchSpine> spine;
  std::string error;
};

Handle* AsHandle(void* spine) { return static_cast<Handle*>(spine); }
Sequence* AsSequence(void* state) { return static_cast<Sequence*>(state); }

template <typename Body>
int32_t Guard(Handle* handle, Body body) {
  try {
    at::NoGradGuard no_grad;
    body();
    return 0;
  } catch (const SpineError& e) {
    handle->error = e.message;
    return e.code;
  } catch (const std::exception& e) {
    const std::string what = e.what();
    handle->error = "libtorch: " + what.substr(0, what.find('\n'));
    return kInternal;
  }
}

int32_t Create(const DeltafinModel* model, const DeltafinTorchOptions* options,
               const DeltafinWeightSource* weights, void** spine) {
  auto* handle = new Handle;
  *spine = handle;
  return Guard(handle, [&] {
    handle->spine = std::make_unique<TorchSpine>(*model, *options, *weights);
  });
}

void Destroy(void* spine) { delete AsHandle(spine); }

const char* LastError(void* spine) { return AsHandle(spine)->error.c_str(); }

int64_t WeightBytes(void* spine) {
  return AsHandle(spine)->spine->weight_bytes();
}

int32_t NewSequence(void* spine, void** state) {
  Handle* h = AsHandle(spine);
  return Guard(h, [&] {
    *state = new Sequence(h->spine->model(), h->spine->num_layers(),
                          h->spine->device());
  });
}

int32_t Fork(void* spine, void* state, void** copy) {
  return Guard(AsHandle(spine),
               [&] { *copy = new Sequence(AsSequence(state)->Clone()); });
}

void FreeSequence(void*, void* state) { delete AsSequence(state); }

int64_t SequenceTokens(void* state) { return AsSequence(state)->num_tokens(); }

int64_t SequenceBytes(void* state) { return AsSequence(state)->bytes(); }

int32_t RetainGeneration(void* spine, void* state) {
  Handle* h = AsHandle(spine);
  return Guard(h, [&] {
    AsSequence(state)->RetainGeneration(h->spine->generation_bytes());
  });
}

int32_t Truncate(void* spine, void* state, int64_t num_tokens,
                 int64_t* retained) {
  return Guard(AsHandle(spine),
               [&] { *retained = AsSequence(state)->TruncateTo(num_tokens); });
}

int32_t Embed(void* spine, const DeltafinSlice* slices, int64_t num_slices) {
  Handle* h = AsHandle(spine);
  return Guard(h, [&] { h->spine->Embed(slices, num_slices); });
}

int32_t Attend(void* spine, int32_t layer) {
  Handle* h = AsHandle(spine);
  return Guard(h, [&] { h->spine->Attend(layer); });
}

int32_t DenseMlp(void* spine, int32_t layer) {
  Handle* h = AsHandle(spine);
  return Guard(h, [&] { h->spine->DenseMlp(layer); });
}

int32_t Route(void* spine, int32_t layer, DeltafinRouted* routed) {
  Handle* h = AsHandle(spine);
  return Guard(h, [&] { *routed = h->spine->Route(layer); });
}

int32_t SharedExperts(void* spine, int32_t layer) {
  Handle* h = AsHandle(spine);
  return Guard(h, [&] { h->spine->SharedExperts(layer); });
}

int32_t AddRoutedExperts(void* spine, int32_t layer, const int64_t* sums) {
  Handle* h = AsHandle(spine);
  return Guard(h, [&] { h->spine->AddRoutedExperts(layer, sums); });
}

int32_t Logits(void* spine, const float** rows, int64_t* num_rows) {
  Handle* h = AsHandle(spine);
  return Guard(h, [&] {
    const at::Tensor& logits = h->spine->Logits();
    *rows = logits.data_ptr<float>();
    *num_rows = logits.size(0);
  });
}

int32_t Rows(void* spine, DeltafinRows* rows) {
  Handle* h = AsHandle(spine);
  return Guard(h, [&] { *rows = h->spine->Rows(); });
}

int32_t EndStep(void* spine) {
  Handle* h = AsHandle(spine);
  return Guard(h, [&] { h->spine->EndStep(); });
}

void AbandonStep(void* spine) { AsHandle(spine)->spine->AbandonStep(); }

constexpr DeltafinTorchApi kApi = {
    .version = DELTAFIN_TORCH_ABI_VERSION,
    .libtorch_version = TORCH_VERSION,
    .create = Create,
    .destroy = Destroy,
    .last_error = LastError,
    .weight_bytes = WeightBytes,
    .new_sequence = NewSequence,
    .fork = Fork,
    .free_sequence = FreeSequence,
    .sequence_tokens = SequenceTokens,
    .sequence_bytes = SequenceBytes,
    .retain_generation = RetainGeneration,
    .truncate = Truncate,
    .embed = Embed,
    .attend = Attend,
    .dense_mlp = DenseMlp,
    .route = Route,
    .shared_experts = SharedExperts,
    .add_routed_experts = AddRoutedExperts,
    .logits = Logits,
    .rows = Rows,
    .end_step = EndStep,
    .abandon_step = AbandonStep,
};

}  // namespace
}  // namespace deltafin::torch_spine

extern "C" __attribute__((visibility("default"))) const DeltafinTorchApi*
deltafin_torch_api(void) {
  return &deltafin::torch_spine::kApi;
}
