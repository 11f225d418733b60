#include "coordinator/frontend/tool_results.h"

#include <algorithm>
#include <string>

#include "absl/container/flat_hash_map.h"

namespace deltafin {
namespace {

// Positions of calls by id; of calls with the same id the first.
using CallPositions = absl::flat_hash_map<std::string, size_t>;

CallPositions PositionsOf(std::span<const ToolCall> calls) {
  CallPositions positions;
  for (size_t i = 0; i < calls.size(); ++i) {
    if (!calls[i].id.empty()) positions.emplace(calls[i].id, i);
  }
  return positions;
}

void OrderRun(std::span<const ToolCall> calls, std::span<ChatMessage> run) {
  const CallPositions positions = PositionsOf(calls);
  for (const ChatMessage& result : run) {
    if (!positions.contains(result.tool_call_id)) return;
  }
  std::stable_sort(run.begin(), run.end(),
                   [&positions](const ChatMessage& a, const ChatMessage& b) {
                     return positions.at(a.tool_call_id) <
                            positions.at(b.tool_call_id);
                   });
  for (ChatMessage& result : run) {
    const ToolCall& call = calls[positions.at(result.tool_call_id)];
    if (!call.name.empty()) result.tool = call.name;
  }
}

}  // namespace

std::vector<ChatMessage> OrderToolResults(
    std::span<const ChatMessage> messages) {
  std::vector<ChatMessage> ordered(messages.begin(), messages.end());
  std::span<const ToolCall> calls;
  for (size_t i = 0; i < ordered.size();) {
    size_t end = i;
    while (end < ordered.size() && ordered[end].role == ChatRole::kTool) ++end;
    if (end > i) {
      OrderRun(calls, std::span(ordered).subspan(i, end - i));
      i = end;
      continue;
    }
    if (ordered[i].role == ChatRole::kAssistant) calls = ordered[i].tool_calls;
    ++i;
  }
  return ordered;
}

}  // namespace deltafin
