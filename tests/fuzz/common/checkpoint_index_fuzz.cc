// Input: a model.safetensors.index.json. No accepted shard may lie outside the
// model directory, no accepted tensor outside the language model.

#include <string_view>

#include "common/base/check.h"
#include "common/base/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const auto shard_of = deltafin::Checkpoint::ParseIndex(
      std::string_view(reinterpret_cast<const char*>(bytes), size));
  if (!shard_of.ok()) return 0;
  for (const auto& [tensor, shard] : *shard_of) {
    CHECK(tensor.starts_with("language_model."));
    CHECK(shard.find('/') == std::string::npos);
    CHECK(shard.ends_with(".safetensors") && shard[0] != '.');
  }
  return 0;
}
