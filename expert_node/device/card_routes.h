// expert_node/device/card_routes.h
//
// A run of a card from the plan of a layer: which token of which rows wants
// which of its slices. A pure function.
#pragma once

#include <span>
#include <vector>

#include "expert_node/device/expert_card.h"
#include "expert_node/work_plan.h"

namespace deltafin {

struct CardRoutes {
  int routes_of_row = 0;          // 0: no row of these wants anything
  std::vector<CardRoute> routes;  // [num_rows, routes_of_row]
};

// `units`: of the plan, the slices of the run in their order. Rows first_row ..
// first_row + num_rows of the plan.
CardRoutes RoutesOfRows(const WorkPlan& plan, std::span<const int> units,
                        int first_row, int num_rows);

}  // namespace deltafin
