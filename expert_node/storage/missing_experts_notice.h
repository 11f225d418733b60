// expert_node/storage/missing_experts_notice.h
//
// What start-up says of an installed model whose experts are not all here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/model_spec.h"
#include "expert_node/storage/expert_index.h"
#include "expert_node/storage/installed_experts.h"

namespace deltafin {

// What the experts of one token take.
struct ExpertDemand {
  double bytes = 0;    // of all of them
  double missing = 0;  // share that is not on the drive; 0 to 1
};

// All experts being equally likely, none in memory, the drive and the source
// reading one after the other. nullopt where a rate that it needs is not known.
std::optional<double> ExpertSecondsPerToken(const ExpertDemand& demand,
                                            const LedgerRates& rates);

// Empty when every expert is here. `rates`: as measured before, 0 where they
// never were.
std::string MissingExpertsNotice(const std::string& model_dir,
                                 const ModelSpec& spec,
                                 InstalledExperts& experts,
                                 const LedgerRates& rates);

}  // namespace deltafin
