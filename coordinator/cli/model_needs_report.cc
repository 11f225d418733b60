// The two forms in which `deltafin info` shows ModelNeeds.

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "coordinator/cli/model_needs.h"

namespace deltafin {
namespace {

using Json = nlohmann::ordered_json;

std::string Size(uint64_t bytes) { return FormatByteSize(bytes); }

int NumMlaLayers(const ModelSpec& spec) {
  int count = 0;
  for (const AttentionKind kind : spec.attention) {
    count += kind == AttentionKind::kMla ? 1 : 0;
  }
  return count;
}

std::string ModelLines(const ModelNeeds& model) {
  const ModelSpec& spec = model.spec;
  const int mla = NumMlaLayers(spec);
  return fmt::format(
      "model      {}\n"
      "  layers   {} ({} KDA, {} MLA; {} dense, {} with experts)\n"
      "  widths   hidden {}, latent {}, expert {}, vocabulary {}\n"
      "  experts  {} a layer, {} a token; one is {}, all are {} in RAM\n"
      "  files    {}; context up to {} tokens\n",
      model.model_dir, spec.num_hidden_layers, spec.num_hidden_layers - mla,
      mla, spec.first_k_dense_replace, spec.num_moe_layers(), spec.hidden_size,
      spec.routed_expert_hidden_size, spec.moe_intermediate_size,
      spec.vocab_size, spec.num_experts, spec.num_experts_per_token,
      Size(spec.expert_shape().payload_bytes()), Size(model.all_expert_bytes),
      Size(model.file_bytes), spec.max_position_embeddings);
}

std::string Row(const char* name, const ModelNeeds& model,
                uint64_t (*value)(const SpineVariant&)) {
  std::string row = fmt::format("  {:<26}", name);
  for (const SpineVariant& spine : model.spines) {
    row += fmt::format("{:>12}", Size(value(spine)));
  }
  return row + '\n';
}

// Spine files: of all of an int8 spine, of what streams in bf16.
uint64_t DiskBytes(const SpineVariant& spine) {
  return std::max(static_cast<uint64_t>(spine.needs.int8_file_bytes),
                  spine.plan.spine.step_bytes);
}

std::string NeedsLines(const ModelNeeds& model) {
  std::string text = fmt::format("{:<28}", "needs, by --spine");
  for (const SpineVariant& spine : model.spines) {
    text += fmt::format("{:>12}", spine.name);
  }
  text += '\n';
  text += Row("spine", model, [](const SpineVariant& s) {
    return static_cast<uint64_t>(s.needs.weight_bytes);
  });
  text += Row("a sequence", model, [](const SpineVariant& s) {
    return static_cast<uint64_t>(s.needs.sequence_fixed_bytes);
  });
  text += Row("and each of its tokens", model, [](const SpineVariant& s) {
    return static_cast<uint64_t>(s.needs.sequence_token_bytes);
  });
  text += Row("a step of prompt tokens", model,
              [](const SpineVariant& s) { return s.plan.step_bytes; });
  text += Row("disk, once", model,
              [](const SpineVariant& s) { return DiskBytes(s); });
  return text;
}

std::string MachineLines(const ModelNeeds& model) {
  const MachineResources& machine = model.machine;
  std::string text = fmt::format(
      "machine    {} of memory available, {} CPUs, {} free beside the model\n",
      Size(machine.memory_available), machine.num_cpus,
      Size(machine.disk_free));
  for (const KernelChoice& kernel : machine.kernels) {
    const char* mark = kernel.name == machine.chosen_kernel ? "chosen"
                       : kernel.supported                   ? "supported"
                                                            : "not here";
    text += fmt::format("  kernel   {:<12}{:<11}{}\n", kernel.name, mark,
                        kernel.requirements);
  }
  return text;
}

// Bytes without experts.
uint64_t BaseBytes(const MemoryPlan& plan) {
  return plan.budget.total() - plan.tier_bytes;
}

bool Fits(const SpineVariant& spine) {
  return BaseBytes(spine.plan) <= spine.plan.budget.available();
}

std::string StreamLine(const SpineVariant& spine) {
  const SpineResidency& residency = spine.plan.spine;
  if (residency.num_streamed == 0) return "";
  return fmt::format(
      "           with {} of {} layers read from disk for every token, {}\n",
      residency.num_streamed, spine.needs.layer_row_bytes.size(),
      Size(residency.step_bytes));
}

std::string VerdictLines(const ModelNeeds& model) {
  std::string text = fmt::format("verdict    for one sequence of {} tokens:\n",
                                 model.context_tokens);
  for (const SpineVariant& spine : model.spines) {
    const uint64_t base = BaseBytes(spine.plan);
    if (Fits(spine)) {
      text += fmt::format(
          "  {}     fits: {} of {}; {} left for experts, {:.0f} % of them\n",
          spine.name, Size(base), Size(spine.plan.budget.available()),
          Size(spine.plan.tier_bytes),
          100.0 * static_cast<double>(spine.plan.tier_bytes) /
              static_cast<double>(model.all_expert_bytes));
      text += StreamLine(spine);
    } else {
      text += fmt::format("  {}     does not fit: {} are missing\n", spine.name,
                          Size(base - spine.plan.budget.available()));
    }
  }
  return text;
}

Json SpineJson(const SpineVariant& spine) {
  return {{"spine", spine.name},
          {"weight_bytes", spine.needs.weight_bytes},
          {"sequence_fixed_bytes", spine.needs.sequence_fixed_bytes},
          {"sequence_token_bytes", spine.needs.sequence_token_bytes},
          {"step_bytes", spine.plan.step_bytes},
          {"disk_bytes", DiskBytes(spine)},
          {"needed_bytes", BaseBytes(spine.plan)},
          {"expert_tier_bytes", spine.plan.tier_bytes},
          {"streamed_layers", spine.plan.spine.num_streamed},
          {"streamed_bytes", spine.plan.spine.step_bytes},
          {"fits", Fits(spine)}};
}

Json KernelsJson(const MachineResources& machine) {
  Json kernels = Json::array();
  for (const KernelChoice& kernel : machine.kernels) {
    kernels.push_back({{"name", kernel.name},
                       {"supported", kernel.supported},
                       {"chosen", kernel.name == machine.chosen_kernel},
                       {"requirements", kernel.requirements}});
  }
  return kernels;
}

Json ModelJson(const ModelNeeds& model) {
  const ModelSpec& spec = model.spec;
  return {{"dir", model.model_dir},
          {"num_layers", spec.num_hidden_layers},
          {"num_moe_layers", spec.num_moe_layers()},
          {"num_mla_layers", NumMlaLayers(spec)},
          {"hidden_size", spec.hidden_size},
          {"latent_size", spec.routed_expert_hidden_size},
          {"vocab_size", spec.vocab_size},
          {"num_experts", spec.num_experts},
          {"num_experts_per_token", spec.num_experts_per_token},
          {"max_context_tokens", spec.max_position_embeddings},
          {"expert_bytes", spec.expert_shape().payload_bytes()},
          {"all_expert_bytes", model.all_expert_bytes},
          {"file_bytes", model.file_bytes}};
}

}  // namespace

std::string ModelNeedsTable(const ModelNeeds& needs) {
  return ModelLines(needs) + NeedsLines(needs) + MachineLines(needs) +
         VerdictLines(needs);
}

std::string ModelNeedsJson(const ModelNeeds& needs) {
  Json spines = Json::array();
  for (const SpineVariant& spine : needs.spines) {
    spines.push_back(SpineJson(spine));
  }
  const MachineResources& machine = needs.machine;
  const Json json{{"model", ModelJson(needs)},
                  {"context_tokens", needs.context_tokens},
                  {"spines", spines},
                  {"machine",
                   {{"memory_available_bytes", machine.memory_available},
                    {"num_cpus", machine.num_cpus},
                    {"disk_free_bytes", machine.disk_free},
                    {"kernels", KernelsJson(machine)}}}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace deltafin
