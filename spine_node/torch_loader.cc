#include "spine_node/torch_loader.h"

#include <dlfcn.h>

#include <filesystem>
#include <utility>
#include <vector>

#include "common/base/safetensors.h"
#include "common/base/status_macros.h"
#include "spine_node/torch_abi.h"
#include "spine_node/torch_weight_source.h"

namespace deltafin {
namespace {

constexpr char kLibraryName[] = "libdeltafin_torch_spine.so";

std::string LibraryPath(const std::string& given) {
  namespace fs = std::filesystem;
  if (!given.empty()) return given;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const fs::path installed =
      program.parent_path().parent_path() / "lib/deltafin" / kLibraryName;
  if (!error && fs::exists(installed, error)) return installed.string();
  return std::string(DELTAFIN_TORCH_SPINE_DIR "/") + kLibraryName;
}

absl::StatusOr<const DeltafinTorchApi*> OpenLibrary(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::FailedPreconditionError(fmt::format(
        "the libtorch spine is not available: {}; install libtorch and build "
        "the 'torch' component, or use --device cpu",
        dlerror()));
  }
  void* symbol = dlsym(library, DELTAFIN_TORCH_API_SYMBOL);
  const DeltafinTorchApi* api =
      symbol ? reinterpret_cast<DeltafinTorchApiFunction>(symbol)() : nullptr;
  if (api == nullptr || api->version != DELTAFIN_TORCH_ABI_VERSION) {
    return absl::FailedPreconditionError(fmt::format(
        "{} is not the libtorch spine of this program (its interface version "
        "is {}, wanted {}); build and install both together",
        path, api ? api->version : 0, DELTAFIN_TORCH_ABI_VERSION));
  }
  return api;
}

DeltafinModel ModelOf(const ModelSpec& spec, const uint8_t* is_mla) {
  DeltafinModel m = {};
  m.vocab_size = spec.vocab_size;
  m.hidden_size = spec.hidden_size;
  m.num_hidden_layers = spec.num_hidden_layers;
  m.intermediate_size = spec.intermediate_size;
  m.first_k_dense_replace = spec.first_k_dense_replace;
  m.attn_res_block_size = spec.attn_res_block_size;
  m.rms_norm_eps = spec.rms_norm_eps;
  m.low_rank_norm_eps = spec.low_rank_norm_eps;
  m.l2_norm_eps = kL2NormEps;
  m.num_attention_heads = spec.num_attention_heads;
  m.q_lora_rank = spec.q_lora_rank;
  m.kv_lora_rank = spec.kv_lora_rank;
  m.qk_nope_head_dim = spec.qk_nope_head_dim;
  m.qk_rope_head_dim = spec.qk_rope_head_dim;
  m.v_head_dim = spec.v_head_dim;
  m.kda_num_heads = spec.kda_num_heads;
  m.kda_head_dim = spec.kda_head_dim;
  m.gate_lower_bound = spec.gate_lower_bound;
  m.num_experts = spec.num_experts;
  m.num_experts_per_token = spec.num_experts_per_token;
  m.num_shared_experts = spec.num_shared_experts;
  m.moe_intermediate_size = spec.moe_intermediate_size;
  m.latent_size = spec.routed_expert_hidden_size;
  m.routed_scaling_factor = spec.routed_scaling_factor;
  m.situ_beta = spec.situ.beta;
  m.situ_linear_beta = spec.situ.linear_beta;
  m.is_mla = is_mla;
  return m;
}

const char* StorageName(const TorchSpineOptions& options) {
  if (options.precision == SpinePrecision::kInt8) return "int8";
  return options.values == DeviceValues::kPacked ? "bf16" : "f32";
}

class TorchSequence : public SequenceState {
 public:
  TorchSequence(const DeltafinTorchApi& api, void* spine, void* state)
      : api_(api), spine_(spine), state_(state) {}
  ~TorchSequence() override { api_.free_sequence(spine_, state_); }

  int64_t num_tokens() const override { return api_.sequence_tokens(state_); }
  int64_t bytes() const override { return api_.sequence_bytes(state_); }
  void* handle() const { return state_; }

 private:
  const DeltafinTorchApi& api_;
  void* spine_;
  void* state_;
};

void* HandleOf(const SequenceState& state) {
  return static_cast<const TorchSequence&>(state).handle();
}

// The other side of the C border.
class TorchSpineClient : public PartialSpine {
 public:
  TorchSpineClient(const DeltafinTorchApi& api, ModelSpec spec,
                   std::unique_ptr<TorchWeightSource> weights,
                   std::string device)
      : api_(api),
        spec_(std::move(spec)),
        weights_(std::move(weights)),
        device_(std::move(device)) {}

  ~TorchSpineClient() override {
    if (spine_ != nullptr) api_.destroy(spine_);
  }

  absl::Status Create(const TorchSpineOptions& options) {
    num_layers_ = options.num_layers.value_or(spec_.num_hidden_layers);
    std::vector<uint8_t> is_mla;
    for (const AttentionKind kind : spec_.attention) {
      is_mla.push_back(kind == AttentionKind::kMla ? 1 : 0);
    }
    const DeltafinModel model = ModelOf(spec_, is_mla.data());
    const DeltafinTorchOptions torch_options = {
        device_.c_str(),     StorageName(options),
        options.num_threads, options.generation_bytes,
        num_layers_,         options.num_layers.has_value() ? 0 : 1};
    return Check(
        api_.create(&model, &torch_options, weights_->border(), &spine_));
  }

  const ModelSpec& spec() const override { return spec_; }

  SpineDescription description() const override {
    SpineDescription d;
    d.name = "torch-" + device_;
    d.weight_bytes = api_.weight_bytes(spine_);
    constexpr int64_t kFloat = sizeof(float);
    const int64_t matrix = int64_t{spec_.kda_width()} * spec_.kda_head_dim;
    const int64_t history = int64_t{3} * 3 * spec_.kda_width();
    const int64_t row = spec_.kv_lora_rank + spec_.qk_rope_head_dim;
    for (int layer = 0; layer < num_layers_; ++layer) {
      if (spec_.attention[layer] == AttentionKind::kKda) {
        d.sequence_fixed_bytes += (matrix + history) * kFloat;
      } else {
        d.sequence_token_bytes += row * kFloat;
      }
    }
    return d;
  }

  absl::StatusOr<std::unique_ptr<SequenceState>> NewSequence(
      int64_t /*max_tokens: the cache grows as it is used*/) override {
    void* state = nullptr;
    RETURN_IF_ERROR(Check(api_.new_sequence(spine_, &state)));
    return std::make_unique<TorchSequence>(api_, spine_, state);
  }

  absl::StatusOr<std::unique_ptr<SequenceState>> Fork(
      const SequenceState& state,
      int64_t /*max_tokens: as NewSequence*/) override {
    void* copy = nullptr;
    RETURN_IF_ERROR(Check(api_.fork(spine_, HandleOf(state), &copy)));
    return std::make_unique<TorchSequence>(api_, spine_, copy);
  }

  absl::Status RetainGeneration(SequenceState& state) override {
    return Check(api_.retain_generation(spine_, HandleOf(state)));
  }

  absl::StatusOr<int64_t> TruncateTo(SequenceState& state,
                                     int64_t num_tokens) override {
    int64_t retained = 0;
    RETURN_IF_ERROR(
        Check(api_.truncate(spine_, HandleOf(state), num_tokens, &retained)));
    return retained;
  }

  absl::Status Embed(std::span<const SequenceSlice> slices) override {
    std::vector<DeltafinSlice> border;
    num_tokens_ = 0;
    for (const SequenceSlice& s : slices) {
      border.push_back({HandleOf(*s.state), s.ids.data(),
                        static_cast<int64_t>(s.ids.size()),
                        static_cast<int32_t>(s.logits)});
      num_tokens_ += static_cast<int64_t>(s.ids.size());
    }
    return Check(
        api_.embed(spine_, border.data(), static_cast<int64_t>(border.size())));
  }

  absl::Status Attend(int layer) override {
    return Timed(timings_.attention, api_.attend, layer);
  }

  absl::Status DenseMlp(int layer) override {
    return Timed(timings_.compute, api_.dense_mlp, layer);
  }

  absl::StatusOr<RoutedTokens> Route(int layer) override {
    DeltafinRouted routed = {};
    RETURN_IF_ERROR(Timed(timings_.compute, api_.route, layer, &routed));
    const size_t tokens = static_cast<size_t>(routed.num_tokens);
    const size_t chosen = tokens * spec_.num_experts_per_token;
    return RoutedTokens{
        routed.num_tokens, spec_.num_experts_per_token,
        std::span(routed.experts, chosen), std::span(routed.weights, chosen),
        std::span(routed.latent, tokens * spec_.routed_expert_hidden_size)};
  }

  absl::Status SharedExperts(int layer) override {
    return Timed(timings_.compute, api_.shared_experts, layer);
  }

  absl::Status AddRoutedExperts(int layer,
                                std::span<const int64_t> sums) override {
    const int64_t wanted = num_tokens_ * spec_.routed_expert_hidden_size;
    if (static_cast<int64_t>(sums.size()) != wanted) {
      return absl::InternalError(
          fmt::format("layer {}: {} expert sums for a step that needs {}",
                      layer, sums.size(), wanted));
    }
    return Timed(timings_.compute, api_.add_routed_experts, layer, sums.data());
  }

  absl::StatusOr<std::span<const float>> Logits() override {
    const float* rows = nullptr;
    int64_t num_rows = 0;
    RETURN_IF_ERROR(Timed(timings_.head, api_.logits, &rows, &num_rows));
    return std::span(rows, static_cast<size_t>(num_rows) * spec_.vocab_size);
  }

  void AbandonStep() override { api_.abandon_step(spine_); }

  absl::Status BeginStep(std::span<const SequenceSlice> /*slices*/) override {
    return absl::UnimplementedError("steps begin in the libtorch spine");
  }
  absl::Status SetRows(const StepRows& /*rows*/) override {
    return absl::UnimplementedError("steps begin in the libtorch spine");
  }

  absl::StatusOr<StepRows> Rows() override {
    DeltafinRows border = {};
    RETURN_IF_ERROR(Timed(timings_.compute, api_.rows, &border));
    StepRows rows;
    rows.prefix = border.prefix;
    rows.snapshots.assign(border.snapshots,
                          border.snapshots + border.num_snapshots);
    return rows;
  }

  absl::Status EndStep() override { return Check(api_.end_step(spine_)); }

  SpineTimings TakeTimings() override { return std::exchange(timings_, {}); }

 private:
  // A failure of the host's own reading comes back as the host's status.
  absl::Status Check(int32_t code) {
    if (code == 0) return absl::OkStatus();
    absl::Status of_weights = weights_->TakeStatus();
    if (!of_weights.ok()) return of_weights;
    return absl::Status(static_cast<absl::StatusCode>(code),
                        std::string("torch spine: ") + api_.last_error(spine_));
  }

  template <typename Function, typename... Args>
  absl::Status Timed(double& seconds, Function function, Args... args) {
    const absl::Time start = absl::Now();
    const int32_t code = function(spine_, args...);
    seconds += absl::ToDoubleSeconds(absl::Now() - start);
    return Check(code);
  }

  const DeltafinTorchApi& api_;
  const ModelSpec spec_;
  const std::unique_ptr<TorchWeightSource> weights_;
  const std::string device_;
  void* spine_ = nullptr;
  int num_layers_ = 0;
  int64_t num_tokens_ = 0;  // of the step in flight
  SpineTimings timings_;
};

}  // namespace

DeviceValues ValuesOn(const std::string& device) {
  return device.rfind("cuda", 0) == 0 ? DeviceValues::kPacked
                                      : DeviceValues::kFloat;
}

absl::StatusOr<std::unique_ptr<PartialSpine>> LoadTorchSpine(
    const TorchSpineOptions& options) {
  ASSIGN_OR_RETURN(ModelSpec spec, ModelSpec::Load(options.model_dir));
  ASSIGN_OR_RETURN(const DeltafinTorchApi* api,
                   OpenLibrary(LibraryPath(options.library)));
  ASSIGN_OR_RETURN(std::unique_ptr<TorchWeightSource> weights,
                   TorchWeightSource::Open(options.model_dir, spec));
  auto spine = std::make_unique<TorchSpineClient>(
      *api, std::move(spec), std::move(weights), options.device);
  RETURN_IF_ERROR(spine->Create(options));
  return spine;
}

}  // namespace deltafin
