// spine_node/cpu/operator_status.h
//
// The result of one operator: fine, or which operator failed at which row. The
// spine turns it into an absl::Status that names layer, sequence and position.
#pragma once

#include "kernels/kernel_status.h"

namespace deltafin {

struct [[nodiscard]] OperatorStatus {
  KernelStatus status = KernelStatus::kOk;
  const char* name = "";  // "mla q_a_proj"; static
  int row = 0;  // lowest row in error, counted as the operator's input

  bool ok() const { return status == KernelStatus::kOk; }
};

}  // namespace deltafin

#define RETURN_IF_OPERATOR_FAILED(expr)                      \
  do {                                                       \
    if (::deltafin::OperatorStatus operator_status = (expr); \
        !operator_status.ok()) {                             \
      return operator_status;                                \
    }                                                        \
  } while (false)
