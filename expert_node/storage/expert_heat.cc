#include "expert_node/storage/expert_heat.h"

#include <cmath>

namespace deltafin {

void ExpertHeat::Use(ExpertKey expert, uint64_t slices) {
  const double now = Now();
  const auto [found, is_first] = traces_.try_emplace(expert);
  Trace& trace = found->second;
  trace.heat =
      is_first ? now : now + std::log2(1 + std::exp2(trace.heat - now));
  trace.slices |= slices;
  trace.is_new = true;
}

double ExpertHeat::Of(ExpertKey expert) const {
  const auto found = traces_.find(expert);
  return found == traces_.end() ? 0 : found->second.heat;
}

HeatPage ExpertHeat::TakeUses() {
  HeatPage page{Now(), {}};
  for (auto& [expert, trace] : traces_) {
    if (!trace.is_new) continue;
    page.uses.push_back({expert, trace.heat, trace.slices});
    trace.slices = 0;
    trace.is_new = false;
  }
  return page;
}

void ExpertHeat::Restore(const HeatPage& page) {
  if (page.now == 0) return;
  origin_ = page.now;
  for (const ExpertUse& use : page.uses) traces_[use.expert].heat = use.heat;
}

}  // namespace deltafin
