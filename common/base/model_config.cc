#include "common/base/model_config.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "common/base/status_macros.h"
#include "simdjson.h"

namespace deltafin {
namespace {

namespace dom = simdjson::dom;

constexpr size_t kMaxDepth = 32;

// A field that has one supported value, written as compact JSON.
struct FixedField {
  const char* path;
  const char* value;
  bool required = true;
};

constexpr FixedField kFixedFields[] = {
    {"/model_type", "\"kimi_k3\""},
    {"/tie_word_embeddings", "false", false},
    {"/text_config/model_type", "\"kimi_linear\""},
    {"/text_config/hidden_act", "\"situ\""},
    {"/text_config/moe_router_activation_func", "\"sigmoid\""},
    {"/text_config/moe_renormalize", "true"},
    {"/text_config/topk_method", "\"noaux_tc\""},
    {"/text_config/num_expert_group", "1"},
    {"/text_config/topk_group", "1"},
    {"/text_config/moe_layer_freq", "1"},
    {"/text_config/mla_use_nope", "true"},
    {"/text_config/mla_use_output_gate", "true"},
    {"/text_config/latent_moe_use_norm", "true"},
    {"/text_config/tie_word_embeddings", "false"},
    {"/text_config/num_nextn_predict_layers", "0", false},
    {"/text_config/linear_attn_config/use_full_rank_gate", "true"},
    {"/text_config/linear_attn_config/short_conv_kernel_size", "4"},
    {"/text_config/quantization_config/quant_method", "\"compressed-tensors\""},
    {"/text_config/quantization_config/format", "\"mxfp4-pack-quantized\""},
    {"/text_config/quantization_config/quantization_status", "\"compressed\"",
     false},
    {"/text_config/quantization_config/kv_cache_scheme", "null", false},
};

// The same for every group under quantization_config.config_groups.
constexpr FixedField kFixedGroupFields[] = {
    {"/format", "\"mxfp4-pack-quantized\"", false},
    {"/input_activations", "null", false},
    {"/output_activations", "null", false},
    {"/weights/num_bits", "4"},
    {"/weights/type", "\"float\""},
    {"/weights/group_size", "32"},
    {"/weights/strategy", "\"group\""},
    {"/weights/symmetric", "true"},
    {"/weights/dynamic", "false", false},
    {"/weights/scale_dtype", "\"torch.uint8\"", false},
};
constexpr const char* kGroupsPath =
    "/text_config/quantization_config/config_groups";

// "/text_config/x" as "text_config.x".
std::string Dotted(const std::string& path) {
  std::string name = path.substr(1);
  std::replace(name.begin(), name.end(), '/', '.');
  return name;
}

// A value for a message, cut where it is long.
std::string Shown(dom::element value) {
  std::string text = simdjson::minify(value);
  if (text.size() > 80) text = text.substr(0, 77) + "...";
  return text;
}

absl::Status Unsupported(const std::string& path, dom::element value,
                         const std::string& supported) {
  return absl::InvalidArgumentError(fmt::format(
      "{} is {}; supported: {}", Dotted(path), Shown(value), supported));
}

absl::Status Missing(const std::string& path) {
  return absl::InvalidArgumentError(fmt::format("{} is missing", Dotted(path)));
}

absl::Status CheckFixed(dom::element root, const std::string& path,
                        const FixedField& field) {
  dom::element value;
  if (root.at_pointer(path).get(value) != simdjson::SUCCESS) {
    return field.required ? Missing(path) : absl::OkStatus();
  }
  if (simdjson::minify(value) == field.value) return absl::OkStatus();
  return Unsupported(path, value, field.value);
}

// Duplicate keys in any object, at most kMaxDepth deep.
absl::Status CheckKeysDiffer(dom::element value, const std::string& path) {
  if (value.is_array()) {
    size_t index = 0;
    for (const dom::element item : dom::array(value)) {
      RETURN_IF_ERROR(
          CheckKeysDiffer(item, path + "/" + std::to_string(index++)));
    }
    return absl::OkStatus();
  }
  if (!value.is_object()) return absl::OkStatus();
  absl::flat_hash_set<std::string> keys;
  for (const dom::key_value_pair field : dom::object(value)) {
    const std::string here = path + "/" + std::string(field.key);
    if (!keys.insert(std::string(field.key)).second) {
      return absl::InvalidArgumentError(Dotted(here) + " appears twice");
    }
    RETURN_IF_ERROR(CheckKeysDiffer(field.value, here));
  }
  return absl::OkStatus();
}

// K3 uses no rotary embedding, so a config that asks for one is another model.
absl::Status CheckNoRope(dom::element root, const std::string& path) {
  dom::object object;
  if (root.at_pointer(path).get(object) != simdjson::SUCCESS) {
    return absl::OkStatus();
  }
  for (const dom::key_value_pair field : object) {
    if (field.key.substr(0, 5) != "rope_") continue;
    return Unsupported(path + "/" + std::string(field.key), field.value,
                       "no rotary embedding, the key must be absent");
  }
  return absl::OkStatus();
}

}  // namespace

struct ModelConfig::Impl {
  dom::parser parser;
  dom::element root;
};

ModelConfig::ModelConfig() : impl_(std::make_unique<Impl>()) {}
ModelConfig::~ModelConfig() = default;
ModelConfig::ModelConfig(ModelConfig&&) noexcept = default;
ModelConfig& ModelConfig::operator=(ModelConfig&&) noexcept = default;

absl::StatusOr<ModelConfig> ModelConfig::Parse(std::string_view json) {
  ModelConfig config;
  Impl& impl = *config.impl_;
  simdjson::error_code error = impl.parser.allocate(json.size(), kMaxDepth);
  if (!error) {
    error = impl.parser.parse(simdjson::padded_string(json)).get(impl.root);
  }
  if (error) {
    return absl::InvalidArgumentError(
        fmt::format("not valid JSON: {}", simdjson::error_message(error)));
  }
  if (!impl.root.is_object()) {
    return absl::InvalidArgumentError("not a JSON object");
  }
  RETURN_IF_ERROR(CheckKeysDiffer(impl.root, ""));
  for (const char* path :
       {"", "/text_config", "/text_config/linear_attn_config"}) {
    RETURN_IF_ERROR(CheckNoRope(impl.root, path));
  }
  return config;
}

absl::Status ModelConfig::CheckFixedFields() const {
  for (const FixedField& field : kFixedFields) {
    RETURN_IF_ERROR(CheckFixed(impl_->root, field.path, field));
  }
  dom::object groups;
  if (impl_->root.at_pointer(kGroupsPath).get(groups) != simdjson::SUCCESS ||
      groups.size() == 0) {
    return Missing(std::string(kGroupsPath) + "/group_0");
  }
  for (const dom::key_value_pair group : groups) {
    const std::string path =
        std::string(kGroupsPath) + "/" + std::string(group.key);
    for (const FixedField& field : kFixedGroupFields) {
      RETURN_IF_ERROR(CheckFixed(impl_->root, path + field.path, field));
    }
  }
  return absl::OkStatus();
}

bool ModelConfig::Has(const std::string& path) const {
  return impl_->root.at_pointer(path).error() == simdjson::SUCCESS;
}

absl::StatusOr<int64_t> ModelConfig::Integer(const std::string& path,
                                             int64_t min, int64_t max,
                                             int64_t multiple_of) const {
  dom::element element;
  if (impl_->root.at_pointer(path).get(element) != simdjson::SUCCESS) {
    return Missing(path);
  }
  int64_t value = 0;
  if (element.get_int64().get(value) == simdjson::SUCCESS && value >= min &&
      value <= max && value % multiple_of == 0) {
    return value;
  }
  std::string supported = min == max
                              ? std::to_string(min)
                              : fmt::format("integers {} to {}", min, max);
  if (multiple_of > 1) {
    supported += fmt::format(", multiples of {}", multiple_of);
  }
  return Unsupported(path, element, supported);
}

absl::StatusOr<std::vector<int64_t>> ModelConfig::Integers(
    const std::string& path, int64_t min, int64_t max) const {
  dom::element element;
  if (impl_->root.at_pointer(path).get(element) != simdjson::SUCCESS) {
    return Missing(path);
  }
  dom::array list;
  if (element.get_array().get(list) != simdjson::SUCCESS) {
    return Unsupported(path, element, "a list of integers");
  }
  std::vector<int64_t> values;
  for (const dom::element item : list) {
    int64_t value = 0;
    if (item.get_int64().get(value) != simdjson::SUCCESS || value < min ||
        value > max) {
      return Unsupported(path + "/" + std::to_string(values.size()), item,
                         fmt::format("integers {} to {}", min, max));
    }
    values.push_back(value);
  }
  return values;
}

absl::StatusOr<float> ModelConfig::Number(const std::string& path, double min,
                                          double max) const {
  dom::element element;
  if (impl_->root.at_pointer(path).get(element) != simdjson::SUCCESS) {
    return Missing(path);
  }
  double value = 0;
  if (element.get_double().get(value) == simdjson::SUCCESS && value >= min &&
      value <= max) {
    return static_cast<float>(value);
  }
  return Unsupported(path, element, fmt::format("numbers {} to {}", min, max));
}

}  // namespace deltafin
