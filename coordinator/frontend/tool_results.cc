#include "coordinator/frontend/tool_results.h"

#include <algorithm>
#include <optional>
#include <string>

namespace deltafin {
namespace {

// Position of the first call with this id.
std::optional<size_t> FindCall(std::span<const ToolCall> calls,
                               const std::string& id) {
  if (id.empty()) return std::nullopt;
  for (size_t i = 0; i < calls.size(); ++i) {
    if (calls[i].id == id) return i;
  }
  return std::nullopt;
}

void OrderRun(std::span<const ToolCall> calls, std::span<ChatMessage> run) {
  for (const ChatMessage& result : run) {
    if (!FindCall(calls, result.tool_call_id)) return;
  }
  std::stable_sort(run.begin(), run.end(),
                   [calls](const ChatMessage& a, const ChatMessage& b) {
                     return *FindCall(calls, a.tool_call_id) <
                            *FindCall(calls, b.tool_call_id);
                   });
  for (ChatMessage& result : run) {
    const ToolCall& call = calls[*FindCall(calls, result.tool_call_id)];
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
