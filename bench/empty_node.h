// bench/empty_node.h
//
// An expert node of the full model's width whose experts cost nothing: no bytes
// are read and the kernel returns at once. What is left is the dispatch itself.
#pragma once

#include <memory>
#include <string>

#include "common/base/model_spec.h"
#include "expert_node/expert_node.h"

namespace deltafin::bench {

// Latent 3584, 16 experts of 12 slices, top 16, one layer with experts (1).
ModelSpec EmptyModelSpec();
inline constexpr char kEmptyModelDigest[] = "empty";

// Started; `listen` as in ExpertNodeOptions. Ends the program on an error.
std::unique_ptr<ExpertNode> StartEmptyNode(const std::string& listen,
                                           const Credentials& credentials = {});

}  // namespace deltafin::bench
