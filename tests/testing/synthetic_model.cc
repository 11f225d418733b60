#include "tests/testing/synthetic_model.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/file_io.h"
#include "common/base/safetensors_writer.h"
#include "common/base/status_macros.h"
#include "common/base/tensor_names.h"
#include "tests/testing/synthetic_config.h"
#include "tests/testing/synthetic_values.h"

namespace deltafin {
namespace {

namespace fs = std::filesystem;

struct Shard {
  std::string file;
  std::vector<TensorSpec> tensors;
};

// The usual serializer's order (docs/model.md section 6.2).
void SortLikeReleased(std::vector<TensorSpec>& tensors) {
  std::sort(tensors.begin(), tensors.end(),
            [](const TensorSpec& a, const TensorSpec& b) {
              const size_t a_size = DTypeSize(a.dtype);
              const size_t b_size = DTypeSize(b.dtype);
              return std::tie(b_size, a.name) < std::tie(a_size, b.name);
            });
}

std::vector<Shard> ShardsOf(const ModelSpec& spec) {
  const int num_shards = spec.num_hidden_layers + 1;
  std::vector<Shard> shards(num_shards);
  for (int layer = 0; layer < spec.num_hidden_layers; ++layer) {
    std::vector<TensorSpec>& tensors = shards[layer].tensors;
    tensors = LayerTensors(spec, layer);
    for (int expert = 0; spec.is_moe(layer) && expert < spec.num_experts;
         ++expert) {
      for (TensorSpec& tensor : ExpertTensors(spec, {layer, expert})) {
        tensors.push_back(std::move(tensor));
      }
    }
  }
  shards.back().tensors = GlobalTensors(spec);
  for (int i = 0; i < num_shards; ++i) {
    shards[i].file =
        fmt::format("model-{:05}-of-{:06}.safetensors", i + 1, num_shards);
    SortLikeReleased(shards[i].tensors);
  }
  return shards;
}

uint64_t TotalBytes(const std::vector<Shard>& shards) {
  uint64_t total = 0;
  for (const Shard& shard : shards) {
    for (const TensorSpec& tensor : shard.tensors) total += tensor.bytes();
  }
  return total;
}

std::string IndexJson(const std::vector<Shard>& shards) {
  std::string map;
  for (const Shard& shard : shards) {
    for (const TensorSpec& tensor : shard.tensors) {
      map += fmt::format("{}\n  \"{}\": \"{}\"", map.empty() ? "" : ",",
                         tensor.name, shard.file);
    }
  }
  return fmt::format(
      "{{\"metadata\": {{\"total_size\": {}}}, \"weight_map\": {{{}\n}}}}\n",
      TotalBytes(shards), map);
}

absl::Status WriteShard(const SyntheticModelOptions& options,
                        const Shard& shard, const std::string& path,
                        const std::function<void(uint64_t)>& advance) {
  std::vector<SafetensorsWriter::Tensor> headers;
  for (const TensorSpec& tensor : shard.tensors) {
    headers.push_back({tensor.name, tensor.dtype, tensor.shape});
  }
  ASSIGN_OR_RETURN(
      SafetensorsWriter writer,
      SafetensorsWriter::Create(path, std::move(headers), {{"format", "pt"}}));
  for (const TensorSpec& tensor : shard.tensors) {
    RETURN_IF_ERROR(StreamSyntheticTensor(options.spec, tensor, options.seed,
                                          [&](std::span<const uint8_t> piece) {
                                            advance(piece.size());
                                            return writer.Append(piece);
                                          }));
  }
  return writer.Commit();
}

absl::StatusOr<std::string> TokenizerDir(const SyntheticModelOptions& options) {
  if (!options.tokenizer_dir.empty()) return options.tokenizer_dir;
  const std::string root = DELTAFIN_SOURCE_DIR;
  if (options.spec.vocab_size == 640) return root + "/tests/golden/tiny-a";
  if (options.spec.vocab_size == 4096) return root + "/deploy/models/k3-nano";
  return absl::InvalidArgumentError(
      fmt::format("no tokenizer with {} ids is at hand; name a folder with one",
                  options.spec.vocab_size));
}

absl::Status CopyTokenizer(const std::string& from, const std::string& to) {
  for (const char* file :
       {"tiktoken.model", "tokenizer_config.json", "generation_config.json"}) {
    std::error_code error;
    fs::copy_file(fs::path(from) / file, fs::path(to) / file,
                  fs::copy_options::overwrite_existing, error);
    if (error) return ErrnoStatus(error.value(), "copy", from + "/" + file);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status MakeSyntheticModel(
    const SyntheticModelOptions& options, const std::string& dir,
    const std::function<void(uint64_t, uint64_t)>& progress) {
  std::error_code error;
  fs::create_directories(dir, error);
  if (error) return ErrnoStatus(error.value(), "create directory", dir);
  ASSIGN_OR_RETURN(const std::string tokenizer, TokenizerDir(options));
  RETURN_IF_ERROR(CopyTokenizer(tokenizer, dir));
  const std::vector<Shard> shards = ShardsOf(options.spec);
  const uint64_t total = TotalBytes(shards);
  uint64_t done = 0;
  for (const Shard& shard : shards) {
    RETURN_IF_ERROR(
        WriteShard(options, shard, dir + "/" + shard.file, [&](uint64_t bytes) {
          done += bytes;
          if (progress) progress(done, total);
        }));
  }
  RETURN_IF_ERROR(WriteFileAtomically(dir + "/model.safetensors.index.json",
                                      IndexJson(shards)));
  return WriteFileAtomically(dir + "/config.json", ConfigJson(options.spec));
}

}  // namespace deltafin
