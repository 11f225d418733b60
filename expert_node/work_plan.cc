#include "expert_node/work_plan.h"

#include <map>
#include <tuple>
#include <utility>

namespace deltafin {
namespace {

struct TokenWeights {
  std::vector<int> tokens;
  std::vector<float> weights;
};

using GroupKey = std::tuple<int, int, int>;  // expert, first slice, count

std::map<GroupKey, TokenWeights> GroupByRun(const MergedWork& work) {
  std::map<GroupKey, TokenWeights> groups;
  for (int token = 0; token < work.num_tokens(); ++token) {
    for (const Assignment& a : work.assignments_of(token)) {
      TokenWeights& group = groups[{a.expert, a.run.first, a.run.count}];
      group.tokens.push_back(token);
      group.weights.push_back(a.weight);
    }
  }
  return groups;
}

// [T] row of each token, -1 for tokens without work.
std::vector<int> NumberRows(const MergedWork& work, WorkPlan& plan) {
  std::vector<int> row_of_token(work.num_tokens(), -1);
  for (int token = 0; token < work.num_tokens(); ++token) {
    if (work.assignments_of(token).empty()) continue;
    row_of_token[token] = static_cast<int>(plan.row_tokens.size());
    plan.row_tokens.push_back(token);
  }
  return row_of_token;
}

}  // namespace

WorkPlan PlanWork(const MergedWork& work) {
  WorkPlan plan;
  const std::vector<int> row_of_token = NumberRows(work, plan);
  std::map<std::vector<int>, int> list_of_tokens;
  for (auto& [key, group] : GroupByRun(work)) {
    const auto [expert, first, count] = key;
    const auto [list, is_new] = list_of_tokens.emplace(
        group.tokens, static_cast<int>(plan.token_lists.size()));
    if (is_new) {
      TokenList& tokens = plan.token_lists.emplace_back();
      for (const int token : group.tokens) {
        tokens.rows.push_back(row_of_token[token]);
      }
      tokens.tokens = std::move(group.tokens);
    }
    const int group_index = static_cast<int>(plan.groups.size());
    plan.num_terms += int64_t{count} * group.weights.size();
    plan.groups.push_back(
        {expert, {first, count}, list->second, std::move(group.weights)});
    for (int slice = first; slice < first + count; ++slice) {
      plan.units.push_back({group_index, slice});
      plan.slices.push_back({{work.layer(), expert}, slice});
    }
  }
  return plan;
}

}  // namespace deltafin
