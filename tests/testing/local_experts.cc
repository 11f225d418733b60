#include "tests/testing/local_experts.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "common/base/check.h"
#include "common/base/tensor_names.h"
#include "kernels/expert_tiles.h"

namespace deltafin::testing {
namespace {

template <typename T>
T ValueOrDie(absl::StatusOr<T> value) {
  CHECK_OK(value.status());
  return std::move(value).value();
}

// Tokens that chose one expert, with its weight for each.
struct Choice {
  std::vector<const float*> rows;
  std::vector<float> weights;
  std::vector<int64_t*> sums;
};

std::map<int32_t, Choice> ByExpert(const RoutedTokens& tokens, int latent_size,
                                   int64_t* sums) {
  std::map<int32_t, Choice> choices;
  for (int t = 0; t < tokens.num_tokens; ++t) {
    for (int k = 0; k < tokens.top_k; ++k) {
      const size_t at = size_t{1} * t * tokens.top_k + k;
      Choice& choice = choices[tokens.experts[at]];
      choice.rows.push_back(&tokens.latent[size_t{1} * t * latent_size]);
      choice.weights.push_back(tokens.weights[at]);
      choice.sums.push_back(sums + size_t{1} * t * latent_size);
    }
  }
  return choices;
}

}  // namespace

LocalExperts::LocalExperts(const std::string& model_dir,
                           const KernelTarget& kernel)
    : spec_(ValueOrDie(ModelSpec::Load(model_dir))),
      checkpoint_(ValueOrDie(Checkpoint::Open(model_dir))),
      kernel_(kernel) {}

const AlignedBuffer& LocalExperts::Record(ExpertKey key) {
  const auto found = records_.find(key);
  if (found != records_.end()) return found->second;
  std::array<std::vector<uint8_t>, 6> released;
  const auto tensors = ExpertTensors(spec_, key);
  for (int i = 0; i < 6; ++i) {
    released[i].resize(tensors[i].bytes());
    CHECK_OK(checkpoint_->ReadTensor(tensors[i].name, tensors[i].dtype,
                                     tensors[i].shape, released[i]));
  }
  const ExpertShape shape = spec_.expert_shape();
  AlignedBuffer record =
      ValueOrDie(AlignedBuffer::Allocate(shape.stride_bytes()));
  PackSlices(shape,
             {.gate_packed = released[0].data(),
              .gate_scale = released[1].data(),
              .up_packed = released[4].data(),
              .up_scale = released[5].data(),
              .down_packed = released[2].data(),
              .down_scale = released[3].data()},
             {0, shape.num_slices()}, record.data());
  return records_.emplace(key, std::move(record)).first->second;
}

absl::StatusOr<std::vector<int64_t>> LocalExperts::Run(
    int layer, const RoutedTokens& tokens) {
  const ExpertShape shape = spec_.expert_shape();
  const ExpertKernel& kernel = kernel_.expert;
  // Rows of sums are aligned in here, dense in the result.
  const size_t count = size_t{1} * tokens.num_tokens * shape.latent_size;
  AlignedBuffer sums =
      ValueOrDie(AlignedBuffer::Allocate(count * sizeof(int64_t)));
  for (auto& [expert, choice] :
       ByExpert(tokens, shape.latent_size, sums.as<int64_t>())) {
    const int n = static_cast<int>(choice.rows.size());
    AlignedBuffer prepared = ValueOrDie(
        AlignedBuffer::Allocate(kernel.prepared_bytes(shape.latent_size, n)));
    AlignedBuffer scratch =
        ValueOrDie(AlignedBuffer::Allocate(kernel.scratch_bytes(shape, n)));
    KernelStatus status = kernel.prepare(choice.rows.data(), shape.latent_size,
                                         n, prepared.data(), nullptr);
    if (status == KernelStatus::kOk) {
      status = kernel.run_slices({.shape = shape,
                                  .situ = spec_.situ,
                                  .slices = Record({layer, expert}).data(),
                                  .run = {0, shape.num_slices()},
                                  .num_tokens = n,
                                  .prepared = prepared.data(),
                                  .weights = choice.weights.data(),
                                  .sums = choice.sums.data(),
                                  .scratch = scratch.data()},
                                 nullptr);
    }
    if (status != KernelStatus::kOk) {
      return absl::OutOfRangeError("a routed expert overflowed");
    }
  }
  return std::vector<int64_t>(sums.as<int64_t>(), sums.as<int64_t>() + count);
}

}  // namespace deltafin::testing
