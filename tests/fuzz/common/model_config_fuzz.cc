// Input: a config.json. What is accepted must hold the rules that later code
// computes with.

#include <string_view>

#include "common/base/check.h"
#include "common/base/model_spec.h"

using deltafin::ModelSpec;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const auto spec = ModelSpec::Parse(
      std::string_view(reinterpret_cast<const char*>(bytes), size));
  if (!spec.ok()) return 0;
  CHECK(static_cast<int>(spec->attention.size()) == spec->num_hidden_layers);
  CHECK(spec->num_moe_layers() >= 0);
  CHECK(spec->num_snapshots() >= 1);
  CHECK(spec->kda_width() >= 1);
  CHECK(spec->num_experts_per_token <= spec->num_experts);
  CHECK(spec->expert_shape().latent_size % deltafin::kMxfp4Group == 0);
  CHECK(spec->expert_shape().intermediate_size % deltafin::kMxfp4Group == 0);
  CHECK(spec->num_experts_per_token * spec->expert_shape().num_slices() <= 256);
  CHECK(spec->rms_norm_eps > 0 && spec->low_rank_norm_eps > 0);
  CHECK(spec->eos_token_id >= 0 && spec->eos_token_id < spec->vocab_size);
  return 0;
}
