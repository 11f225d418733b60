#include "tests/unit/expert_node/generated_experts.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "common/base/check.h"
#include "tests/unit/kernels/expert_definition.h"

namespace deltafin {
namespace {

std::vector<uint8_t> RandomBytes(size_t count, std::mt19937_64& random,
                                 int lowest, int range) {
  std::vector<uint8_t> bytes(count);
  for (uint8_t& byte : bytes) {
    byte = static_cast<uint8_t>(lowest + random() % range);
  }
  return bytes;
}

}  // namespace

ModelSpec SmallSpec(const ExpertShape& shape) {
  ModelSpec spec;
  spec.num_hidden_layers = 5;
  spec.first_k_dense_replace = 1;
  spec.num_experts = 8;
  spec.num_experts_per_token = 4;
  spec.routed_expert_hidden_size = shape.latent_size;
  spec.moe_intermediate_size = shape.intermediate_size;
  return spec;
}

GeneratedExpert::GeneratedExpert(const ExpertShape& shape, ExpertKey key)
    : shape(shape) {
  std::mt19937_64 random(key.layer * 1000 + key.expert);
  const size_t weights =
      size_t{1} * shape.latent_size * shape.intermediate_size;
  for (int i = 0; i < 6; i += 2) {
    tensors[i] = RandomBytes(weights / 2, random, 0, 256);
    tensors[i + 1] = RandomBytes(weights / 32, random, 118, 6);
  }
}

ReleasedExpert GeneratedExpert::released() const {
  return {tensors[0].data(), tensors[1].data(), tensors[2].data(),
          tensors[3].data(), tensors[4].data(), tensors[5].data()};
}

std::vector<uint8_t> GeneratedExpert::Packed(int slice) const {
  std::vector<uint8_t> packed(shape.slice_offset(slice + 1) -
                              shape.slice_offset(slice));
  PackSlices(shape, released(), {slice, 1}, packed.data());
  return packed;
}

absl::StatusOr<uint64_t> GeneratedStore::Read(
    ExpertKey key, SliceRun run, std::span<uint8_t* const> out,
    absl::FunctionRef<void(int)> ready) {
  {
    std::unique_lock lock(mutex_);
    ++num_reads_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !held_; });
  }
  if (failure_) {
    if (absl::Status status = failure_(key); !status.ok()) return status;
  }
  const GeneratedExpert expert(shape_, key);
  uint64_t bytes = 0;
  for (int i = 0; i < run.count; ++i) {
    const std::vector<uint8_t> packed = expert.Packed(run.first + i);
    std::copy(packed.begin(), packed.end(), out[i]);
    bytes += packed.size();
    ++num_slices_read_;
    ready(run.first + i);
  }
  return bytes;
}

void GeneratedStore::Hold() {
  std::lock_guard lock(mutex_);
  held_ = true;
}

void GeneratedStore::Open() {
  std::lock_guard lock(mutex_);
  held_ = false;
  changed_.notify_all();
}

void GeneratedStore::WaitForReads(int count) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return num_reads_ >= count; });
}

LayerWork GeneratedWork(const ModelSpec& spec, int layer, int num_tokens,
                        uint64_t seed) {
  std::mt19937_64 random(seed);
  LayerWork work;
  work.epoch = 1;
  work.step = 7;
  work.layer = layer;
  work.num_tokens = num_tokens;
  work.latent.resize(size_t{1} * num_tokens * spec.routed_expert_hidden_size);
  for (float& x : work.latent) {
    x = static_cast<float>(static_cast<int64_t>(random() % 2001) - 1000) / 256;
  }
  std::vector<int> experts(spec.num_experts);
  for (int t = 0; t < num_tokens; ++t) {
    std::iota(experts.begin(), experts.end(), 0);
    for (int k = 0; k < spec.num_experts_per_token; ++k) {
      std::swap(experts[k], experts[k + random() % (experts.size() - k)]);
      work.assignments.push_back({experts[k],
                                  {0, spec.expert_shape().num_slices()},
                                  static_cast<float>(1 + random() % 64) / 128});
    }
    work.assignment_end.push_back(static_cast<int>(work.assignments.size()));
  }
  return work;
}

std::vector<int64_t> DefinedSums(const ModelSpec& spec, const LayerWork& work) {
  const ExpertShape shape = spec.expert_shape();
  std::vector<int64_t> sums;
  for (int t = 0; t < work.num_tokens; ++t) {
    if (work.assignments_of(t).empty()) continue;
    sums.resize(sums.size() + shape.latent_size, 0);
    int64_t* row = &sums[sums.size() - shape.latent_size];
    QuantizedRow x;
    CHECK(DefineQuantized(&work.latent[size_t{1} * t * shape.latent_size],
                          shape.latent_size, &x));
    for (const Assignment& a : work.assignments_of(t)) {
      const GeneratedExpert expert(shape, {work.layer, a.expert});
      CHECK(DefineSlices(shape, spec.situ, expert.released(), a.run, x,
                         a.weight, row));
    }
  }
  return sums;
}

v1::LayerRequest RequestOf(const LayerWork& work) {
  v1::LayerRequest request;
  request.set_epoch(work.epoch);
  request.set_step(work.step);
  request.set_layer(work.layer);
  request.set_part(work.part);
  request.set_num_parts(work.num_parts);
  request.set_num_tokens(work.num_tokens);
  request.set_latent(work.latent.data(), work.latent.size() * sizeof(float));
  for (const int end : work.assignment_end) request.add_assignment_end(end);
  for (const Assignment& a : work.assignments) {
    request.add_expert(a.expert);
    request.add_first_slice(a.run.first);
    request.add_num_slices(a.run.count);
    request.add_weight(a.weight);
  }
  return request;
}

}  // namespace deltafin
