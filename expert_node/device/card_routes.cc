#include "expert_node/device/card_routes.h"

#include <algorithm>

namespace deltafin {
namespace {

// Calls take(row, route), rows counted from first_row, for each that is wanted.
template <typename Take>
void ForEachRoute(const WorkPlan& plan, std::span<const int> units,
                  int first_row, int num_rows, const Take& take) {
  for (size_t i = 0; i < units.size(); ++i) {
    const ExpertGroup& group = plan.groups[plan.units[units[i]].group];
    const std::vector<int>& rows = plan.token_lists[group.token_list].rows;
    auto row = std::lower_bound(rows.begin(), rows.end(), first_row);
    for (; row != rows.end() && *row < first_row + num_rows; ++row) {
      take(*row - first_row, CardRoute{static_cast<int32_t>(i),
                                       group.weights[row - rows.begin()]});
    }
  }
}

}  // namespace

CardRoutes RoutesOfRows(const WorkPlan& plan, std::span<const int> units,
                        int first_row, int num_rows) {
  std::vector<int> count(num_rows, 0);
  ForEachRoute(plan, units, first_row, num_rows,
               [&](int row, const CardRoute&) { ++count[row]; });
  CardRoutes result;
  result.routes_of_row = *std::max_element(count.begin(), count.end());
  result.routes.resize(static_cast<size_t>(num_rows) * result.routes_of_row);
  std::fill(count.begin(), count.end(), 0);
  ForEachRoute(
      plan, units, first_row, num_rows, [&](int row, const CardRoute& route) {
        const size_t begin = static_cast<size_t>(row) * result.routes_of_row;
        result.routes[begin + count[row]++] = route;
      });
  return result;
}

}  // namespace deltafin
