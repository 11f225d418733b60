#include "expert_node/layer_work.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "common/base/status_macros.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the wire carries f32 and i64 in the machine's order");

template <typename... Args>
absl::Status Invalid(fmt::format_string<Args...> format, Args&&... args) {
  return absl::InvalidArgumentError(
      fmt::format(format, std::forward<Args>(args)...));
}

absl::Status CheckLayer(uint32_t layer, const ModelSpec& spec) {
  if (layer < static_cast<uint32_t>(spec.num_hidden_layers) &&
      spec.is_moe(static_cast<int>(layer))) {
    return absl::OkStatus();
  }
  return Invalid("layer: {} has no routed experts, layers {} to {} have", layer,
                 spec.first_k_dense_replace, spec.num_hidden_layers - 1);
}

absl::Status CheckHeader(const v1::LayerRequest& request, const ModelSpec& spec,
                         int max_tokens) {
  RETURN_IF_ERROR(CheckLayer(request.layer(), spec));
  if (request.num_parts() != 0 && request.part() >= request.num_parts()) {
    return Invalid("part: {}, num_parts says {}", request.part(),
                   request.num_parts());
  }
  if (request.num_tokens() < 1 ||
      request.num_tokens() > static_cast<uint32_t>(max_tokens)) {
    return Invalid("num_tokens: {}, 1 to {} are accepted", request.num_tokens(),
                   max_tokens);
  }
  const size_t latent_bytes =
      size_t{4} * request.num_tokens() * spec.routed_expert_hidden_size;
  if (request.latent().size() != latent_bytes) {
    return Invalid("latent: {} bytes, {} tokens of width {} have {}",
                   request.latent().size(), request.num_tokens(),
                   spec.routed_expert_hidden_size, latent_bytes);
  }
  return absl::OkStatus();
}

absl::Status CheckListLengths(const v1::LayerRequest& request) {
  const int count = request.expert_size();
  if (request.first_slice_size() != count ||
      request.num_slices_size() != count || request.weight_size() != count) {
    return Invalid(
        "expert, first_slice, num_slices, weight: {}, {}, {} and {} entries, "
        "want equally many",
        count, request.first_slice_size(), request.num_slices_size(),
        request.weight_size());
  }
  if (request.assignment_end_size() != static_cast<int>(request.num_tokens())) {
    return Invalid("assignment_end: {} entries for {} tokens",
                   request.assignment_end_size(), request.num_tokens());
  }
  uint32_t before = 0;
  for (int t = 0; t < request.assignment_end_size(); ++t) {
    const uint32_t end = request.assignment_end(t);
    if (end < before || end > static_cast<uint32_t>(count)) {
      return Invalid("assignment_end[{}]: {}, want {} to {}", t, end, before,
                     count);
    }
    before = end;
  }
  if (before != static_cast<uint32_t>(count)) {
    return Invalid("assignment_end: the last is {}, but there are {} entries",
                   before, count);
  }
  return absl::OkStatus();
}

// Entry i of the lists that name runs of slices.
template <typename Request>
absl::StatusOr<ExpectedRun> CheckRun(const Request& request,
                                     const ModelSpec& spec, int i) {
  const uint32_t expert = request.expert(i);
  const uint32_t first = request.first_slice(i);
  const uint32_t count = request.num_slices(i);
  const uint32_t num_slices = spec.expert_shape().num_slices();
  if (expert >= static_cast<uint32_t>(spec.num_experts)) {
    return Invalid("expert[{}]: {}, the model has {}", i, expert,
                   spec.num_experts);
  }
  if (first >= num_slices) {
    return Invalid("first_slice[{}]: {}, an expert has {}", i, first,
                   num_slices);
  }
  if (count < 1 || count > num_slices - first) {
    return Invalid("num_slices[{}]: {} from slice {}, want 1 to {}", i, count,
                   first, num_slices - first);
  }
  return ExpectedRun{
      {static_cast<int>(request.layer()), static_cast<int>(expert)},
      {static_cast<int>(first), static_cast<int>(count)}};
}

absl::StatusOr<Assignment> CheckAssignment(const v1::LayerRequest& request,
                                           const ModelSpec& spec, int i) {
  ASSIGN_OR_RETURN(const ExpectedRun named, CheckRun(request, spec, i));
  const float weight = request.weight(i);
  if (!std::isfinite(weight)) {
    return Invalid("weight[{}]: {} is not finite", i, weight);
  }
  return Assignment{named.expert.expert, named.run, weight};
}

// A token has at most top-k experts, and no slice of one twice: that would
// count it double, and could leave the range of the fixed-point sum.
absl::Status CheckToken(std::span<const Assignment> assignments, int token,
                        const ModelSpec& spec) {
  std::vector<Assignment> sorted(assignments.begin(), assignments.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const Assignment& a, const Assignment& b) {
              return std::pair(a.expert, a.run.first) <
                     std::pair(b.expert, b.run.first);
            });
  int num_experts = sorted.empty() ? 0 : 1;
  for (size_t i = 1; i < sorted.size(); ++i) {
    const Assignment& a = sorted[i - 1];
    const Assignment& b = sorted[i];
    if (a.expert != b.expert) {
      ++num_experts;
    } else if (b.run.first < a.run.first + a.run.count) {
      return Invalid("token {}: slice {} of expert {} comes twice", token,
                     b.run.first, b.expert);
    }
  }
  if (num_experts > spec.num_experts_per_token) {
    return Invalid("token {}: {} experts, the model chooses {}", token,
                   num_experts, spec.num_experts_per_token);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LayerWork> CheckLayerRequest(const v1::LayerRequest& request,
                                            const ModelSpec& spec,
                                            int max_tokens) {
  RETURN_IF_ERROR(CheckHeader(request, spec, max_tokens));
  RETURN_IF_ERROR(CheckListLengths(request));
  LayerWork work;
  work.epoch = request.epoch();
  work.step = request.step();
  work.layer = request.layer();
  work.part = request.part();
  work.num_parts = request.num_parts();
  work.num_tokens = request.num_tokens();
  work.assignment_end.assign(request.assignment_end().begin(),
                             request.assignment_end().end());
  work.assignments.reserve(request.expert_size());
  for (int i = 0; i < request.expert_size(); ++i) {
    ASSIGN_OR_RETURN(const Assignment assignment,
                     CheckAssignment(request, spec, i));
    work.assignments.push_back(assignment);
  }
  for (int t = 0; t < work.num_tokens; ++t) {
    RETURN_IF_ERROR(CheckToken(work.assignments_of(t), t, spec));
  }
  work.latent.resize(request.latent().size() / sizeof(float));
  std::memcpy(work.latent.data(), request.latent().data(),
              request.latent().size());
  return work;
}

absl::StatusOr<std::vector<ExpectedRun>> CheckExpectExperts(
    const v1::ExpectExperts& request, const ModelSpec& spec) {
  RETURN_IF_ERROR(CheckLayer(request.layer(), spec));
  const int count = request.expert_size();
  const int most = spec.num_experts * spec.expert_shape().num_slices();
  if (count > most || request.first_slice_size() != count ||
      request.num_slices_size() != count) {
    return Invalid(
        "expert, first_slice, num_slices: {}, {} and {} entries, want equally "
        "many, at most {}",
        count, request.first_slice_size(), request.num_slices_size(), most);
  }
  std::vector<ExpectedRun> runs;
  runs.reserve(count);
  for (int i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(const ExpectedRun run, CheckRun(request, spec, i));
    runs.push_back(run);
  }
  return runs;
}

int64_t MaxLayerRequestBytes(const ModelSpec& spec, int max_tokens) {
  // Packed varints take at most 5 bytes, a weight 4; a token may name each
  // slice of its experts alone. The rest is names, lengths and ids.
  const int64_t assignments =
      int64_t{spec.num_experts_per_token} * spec.expert_shape().num_slices();
  return 4096 + max_tokens * (int64_t{4} * spec.routed_expert_hidden_size + 5 +
                              assignments * (3 * 5 + 4));
}

}  // namespace deltafin
