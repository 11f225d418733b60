// coordinator/streamed_spine_notice.h
//
// What start-up says of a spine that memory does not hold whole.
#pragma once

#include <optional>
#include <string>

#include "spine_node/residency.h"

namespace deltafin {

// One sentence: layers in memory and read, bytes a token and, where a rate in
// bytes a second is known, the seconds a token that reading them takes. Pure.
std::string StreamedSpineNotice(const SpineResidency& residency, int num_layers,
                                std::optional<double> read_rate);

// What the drive of the model reads, past the page cache; reads for half a
// second. Nothing where there is nothing to read.
std::optional<double> MeasureModelDrive(const std::string& model_dir);

}  // namespace deltafin
