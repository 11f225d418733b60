#include "spine_node/unit_layout.h"

#include <string_view>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_format.h"

namespace deltafin {
namespace {

constexpr size_t kPlaceAlignment = 64;

size_t Reserve(size_t bytes, size_t& end) {
  const size_t offset = end;
  end += (bytes + kPlaceAlignment - 1) / kPlaceAlignment * kPlaceAlignment;
  return offset;
}

// Gathers the places of one unit and gives each its offset. Names and shapes of
// tensors are those of common/base/tensor_names.h.
class Planner {
 public:
  using Resolve = absl::FunctionRef<TensorSpec(std::string_view suffix)>;

  Planner(Resolve resolve, SpinePrecision precision, UnitLayout& layout)
      : resolve_(resolve), precision_(precision), layout_(layout) {}

  // A small matrix, which stays bf16 in every spine.
  void Bf16(std::string_view suffix, LinearWeights& view) {
    AddWhole({.tensor = resolve_(suffix)}, WeightFormat::kBf16, view);
  }

  // A matrix of the unit's rows, which an int8 spine holds as int8.
  void Linear(std::string_view suffix, LinearWeights& view) {
    AddWhole({.tensor = resolve_(suffix), .in_rows = true},
             precision_ == SpinePrecision::kInt8 ? WeightFormat::kInt8
                                                 : WeightFormat::kBf16,
             view);
  }

  // The key and value rows of every head of kv_b_proj.
  void HeadsOfKvB(std::string_view suffix, const ModelSpec& spec,
                  MlaWeights& mla) {
    const int nope = spec.qk_nope_head_dim, value = spec.v_head_dim;
    const int latent = spec.kv_lora_rank, heads = spec.num_attention_heads;
    mla.keys.resize(heads);
    mla.values.resize(heads);
    MatrixPlace place{.tensor = resolve_(suffix)};
    for (int h = 0; h < heads; ++h) {
      place.first_row = int64_t{h} * (nope + value);
      place.source = MatrixSource::kHeadKeys;
      Add(place, {.format = WeightFormat::kBf16, .rows = latent, .cols = nope},
          mla.keys[h]);
      place.first_row += nope;
      place.source = MatrixSource::kHeadValues;
      Add(place, {.format = WeightFormat::kBf16, .rows = value, .cols = latent},
          mla.values[h]);
    }
  }

  void Vector(std::string_view suffix, const float*& view) {
    AddVector(resolve_(suffix), VectorForm::kPlain, view);
  }

  // norm.weight * proj.weight of an attention-residual site.
  void Residual(const std::string& site, const float*& view) {
    AddVector(resolve_(site + "_norm.weight"), VectorForm::kProduct, view);
    layout_.vectors.back().factor = resolve_(site + "_proj.weight");
  }

  void Taps(std::string_view suffix, const float*& view) {
    AddVector(resolve_(suffix), VectorForm::kHeadTaps, view);
  }

  // One value per head; the tensor is padded to max(heads, head_dim).
  void DecayRate(std::string_view suffix, int heads, const float*& view) {
    AddVector(resolve_(suffix), VectorForm::kExp, view);
    layout_.vectors.back().count = heads;
  }

 private:
  void AddWhole(MatrixPlace place, WeightFormat format, LinearWeights& view) {
    const std::vector<int64_t>& extents = place.tensor.shape;
    const LinearWeights shape = {.format = format,
                                 .rows = static_cast<int>(extents[0]),
                                 .cols = static_cast<int>(extents[1])};
    Add(std::move(place), shape, view);
  }

  void Add(MatrixPlace place, const LinearWeights& shape, LinearWeights& view) {
    view = shape;
    place.view = &view;
    const size_t bytes = LinearTileBytes(shape.format, shape.rows, shape.cols);
    size_t& end = place.in_rows ? layout_.rows_bytes : layout_.dense_bytes;
    place.offset = Reserve(bytes, end);
    if (shape.format == WeightFormat::kInt8) {
      place.scale_offset = Reserve(sizeof(float) * shape.rows, end);
    }
    layout_.matrices.push_back(std::move(place));
  }

  void AddVector(TensorSpec tensor, VectorForm form, const float*& view) {
    int64_t count = 1;
    for (const int64_t extent : tensor.shape) count *= extent;
    const size_t offset = Reserve(sizeof(float) * count, layout_.dense_bytes);
    layout_.vectors.push_back({.tensor = std::move(tensor),
                               .count = count,
                               .form = form,
                               .view = &view,
                               .offset = offset});
  }

  Resolve resolve_;
  SpinePrecision precision_;
  UnitLayout& layout_;
};

void PlanKda(const ModelSpec& spec, Planner& plan, KdaWeights& kda) {
  plan.Linear("self_attn.q_proj.weight", kda.q);
  plan.Linear("self_attn.k_proj.weight", kda.k);
  plan.Linear("self_attn.v_proj.weight", kda.v);
  plan.Linear("self_attn.g_proj.weight", kda.g);
  plan.Linear("self_attn.o_proj.weight", kda.o);
  plan.Bf16("self_attn.f_a_proj.weight", kda.f_a);
  plan.Bf16("self_attn.f_b_proj.weight", kda.f_b);
  plan.Bf16("self_attn.b_proj.weight", kda.b);
  plan.Taps("self_attn.q_conv1d.weight", kda.q_taps);
  plan.Taps("self_attn.k_conv1d.weight", kda.k_taps);
  plan.Taps("self_attn.v_conv1d.weight", kda.v_taps);
  plan.DecayRate("self_attn.A_log", spec.kda_num_heads, kda.decay_rate);
  plan.Vector("self_attn.dt_bias", kda.dt_bias);
  plan.Vector("self_attn.o_norm.weight", kda.o_norm);
}

void PlanMla(const ModelSpec& spec, Planner& plan, MlaWeights& mla) {
  plan.Linear("self_attn.q_a_proj.weight", mla.q_a);
  plan.Linear("self_attn.q_b_proj.weight", mla.q_b);
  plan.Linear("self_attn.kv_a_proj_with_mqa.weight", mla.kv_a);
  plan.Linear("self_attn.g_proj.weight", mla.g);
  plan.Linear("self_attn.o_proj.weight", mla.o);
  plan.HeadsOfKvB("self_attn.kv_b_proj.weight", spec, mla);
  plan.Vector("self_attn.q_a_layernorm.weight", mla.q_a_norm);
  plan.Vector("self_attn.kv_a_layernorm.weight", mla.kv_a_norm);
}

void PlanMlp(const std::string& base, Planner& plan, MlpWeights& mlp) {
  plan.Linear(base + "gate_proj.weight", mlp.gate);
  plan.Linear(base + "up_proj.weight", mlp.up);
  plan.Linear(base + "down_proj.weight", mlp.down);
}

void PlanMoe(Planner& plan, MoeWeights& moe) {
  plan.Bf16("block_sparse_moe.gate.weight", moe.router);
  plan.Vector("block_sparse_moe.gate.e_score_correction_bias",
              moe.correction_bias);
  plan.Linear("block_sparse_moe.routed_expert_down_proj.weight",
              moe.latent_down);
  plan.Vector("block_sparse_moe.routed_expert_norm.weight", moe.latent_norm);
  plan.Linear("block_sparse_moe.routed_expert_up_proj.weight", moe.latent_up);
  PlanMlp("block_sparse_moe.shared_experts.", plan, moe.shared);
}

}  // namespace

UnitLayout LayOutLayer(const ModelSpec& spec, int layer_index,
                       SpinePrecision precision, LayerWeights* layer) {
  UnitLayout layout;
  layout.name = absl::StrFormat("layer-%02d", layer_index);
  layout.kda_head_dim = spec.kda_head_dim;
  layer->attention_kind = spec.attention[layer_index];
  layer->is_moe = spec.is_moe(layer_index);
  const auto resolve = [&](std::string_view suffix) {
    return LayerTensor(spec, layer_index, suffix);
  };
  Planner plan(resolve, precision, layout);
  plan.Vector("input_layernorm.weight", layer->input_norm);
  plan.Vector("post_attention_layernorm.weight", layer->post_attention_norm);
  plan.Residual("self_attention_res", layer->attention_residual);
  plan.Residual("mlp_res", layer->mlp_residual);
  if (layer->attention_kind == AttentionKind::kKda) {
    PlanKda(spec, plan, layer->kda);
  } else {
    PlanMla(spec, plan, layer->mla);
  }
  if (layer->is_moe) {
    PlanMoe(plan, layer->moe);
  } else {
    PlanMlp("mlp.", plan, layer->dense);
  }
  return layout;
}

UnitLayout LayOutHead(const ModelSpec& spec, SpinePrecision precision,
                      HeadWeights* head) {
  UnitLayout layout;
  layout.name = "head";
  const auto resolve = [&](std::string_view suffix) {
    return GlobalTensor(spec, suffix);
  };
  Planner plan(resolve, precision, layout);
  plan.Vector("norm.weight", head->norm);
  plan.Residual("output_attn_res", head->output_residual);
  plan.Linear("lm_head.weight", head->lm_head);
  return layout;
}

void BindViews(const UnitLayout& layout, const WeightMemory& memory) {
  for (const MatrixPlace& place : layout.matrices) {
    if (place.in_rows) continue;
    place.view->tiles = memory.dense.data() + place.offset;
  }
  for (const VectorPlace& place : layout.vectors) {
    *place.view =
        reinterpret_cast<const float*>(memory.dense.data() + place.offset);
  }
  if (memory.rows.size() > 0) BindRows(layout, memory.rows.data());
}

void BindRows(const UnitLayout& layout, const uint8_t* rows) {
  for (const MatrixPlace& place : layout.matrices) {
    if (!place.in_rows) continue;
    place.view->tiles = rows + place.offset;
    if (place.view->format != WeightFormat::kInt8) continue;
    place.view->row_scale =
        reinterpret_cast<const float*>(rows + place.scale_offset);
  }
}

}  // namespace deltafin
