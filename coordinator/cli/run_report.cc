#include "coordinator/cli/run_report.h"

#include <nlohmann/json.hpp>

#include "common/base/digest.h"
#include "common/base/status_macros.h"
#include "coordinator/cli/logits_dump.h"

namespace deltafin {
namespace {

using Json = nlohmann::ordered_json;

// Bytes that are no UTF-8 become U+FFFD: JSON has no other place for them.
std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json NodeJson(const NodeReport& node) {
  const v1::NodeCounters& counters = node.counters;
  return {{"address", node.address},
          {"node_id", node.identity.node_id()},
          {"kernel", node.identity.kernel()},
          {"threads", node.identity.threads()},
          {"ram_bytes", node.identity.ram_bytes()},
          {"layer_requests", counters.layer_requests()},
          {"slices_computed", counters.slices_computed()},
          {"cache_hits", counters.cache_hits()},
          {"cache_misses", counters.cache_misses()},
          {"expected_used", counters.expected_used()},
          {"expected_wasted", counters.expected_wasted()},
          {"evictions", counters.evictions()},
          {"bytes_read", counters.bytes_read()},
          {"resident_bytes", counters.resident_bytes()},
          {"refused_requests", counters.refused_requests()},
          {"cancelled_requests", counters.cancelled_requests()},
          {"reachable", node.reachable},
          {"streams_opened", node.streams_opened},
          {"parts_lost", node.work.parts_lost},
          {"parts_hedged", node.work.parts_hedged},
          {"slices_hedged", node.work.slices_hedged},
          {"hedges_won", node.work.hedges_won},
          {"replies", node.work.replies},
          {"replies_dropped", node.work.replies_dropped}};
}

Json SettingsJson(const RunSettings& settings) {
  return {{"spine", settings.spine},
          {"kernel", settings.kernel},
          {"threads", settings.num_threads},
          {"prefill_chunk", settings.prefill_chunk},
          {"context", settings.context_tokens},
          {"placement", settings.placement}};
}

Json SecondsJson(const ForwardStats& forward) {
  return {{"spine_read", forward.spine.read},
          {"spine_compute", forward.spine.compute},
          {"attention", forward.spine.attention},
          {"experts_read", forward.experts_read},
          {"experts_compute", forward.experts_compute},
          {"network", forward.network},
          {"head", forward.spine.head}};
}

Json StatsJson(const RunStatistics& statistics) {
  const SchedulerStats& scheduler = statistics.scheduler;
  const int64_t tokens = scheduler.prefill_tokens + scheduler.decode_tokens;
  Json per_token = SecondsJson(scheduler.forward);
  for (auto& [name, seconds] : per_token.items()) {
    seconds =
        tokens > 0 ? seconds.get<double>() / static_cast<double>(tokens) : 0.0;
  }
  Json nodes = Json::array();
  for (const NodeReport& node : statistics.nodes) {
    nodes.push_back(NodeJson(node));
  }
  return {{"settings", SettingsJson(statistics.settings)},
          {"steps", scheduler.steps},
          {"prefill_tokens", scheduler.prefill_tokens},
          {"decode_tokens", scheduler.decode_tokens},
          {"sequences_in_steps", scheduler.sequences_in_steps},
          {"max_sequences_in_step", scheduler.max_sequences_in_step},
          {"steps_with_two_or_more", scheduler.steps_with_two_or_more},
          {"max_tokens_in_step", scheduler.max_tokens_in_step},
          {"requests_finished", scheduler.requests_finished},
          {"cached_prompt_tokens", scheduler.reuse.cached_tokens},
          {"draft_steps", scheduler.speculation.steps},
          {"drafted_tokens", scheduler.speculation.drafted},
          {"accepted_tokens", scheduler.speculation.accepted},
          {"seconds", SecondsJson(scheduler.forward)},
          {"seconds_per_token", per_token},
          {"nodes", nodes}};
}

Json TimingsJson(const RunReport& report) {
  const RequestTimings& timings = report.output.result.timings;
  return {{"load_seconds", report.load_seconds},
          {"queue_seconds", absl::ToDoubleSeconds(timings.queue)},
          {"prefill_seconds", absl::ToDoubleSeconds(timings.prefill)},
          {"decode_seconds", absl::ToDoubleSeconds(timings.decode)}};
}

Json LogprobsJson(const std::vector<GenerationOutput::Logprob>& logprobs) {
  Json all = Json::array();
  for (const GenerationOutput::Logprob& token : logprobs) {
    Json top = Json::array();
    for (const TokenLogprob& other : token.top) {
      top.push_back({{"id", other.id}, {"logprob", other.logprob}});
    }
    all.push_back({{"id", token.id}, {"logprob", token.logprob}, {"top", top}});
  }
  return all;
}

Json ToolCallsJson(const std::vector<ToolCall>& calls) {
  Json all = Json::array();
  for (const ToolCall& call : calls) {
    all.push_back({{"id", call.id},
                   {"name", call.name},
                   {"arguments", call.arguments_json}});
  }
  return all;
}

}  // namespace

std::string FinishReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kStopString:
      return "stop_string";
    case FinishReason::kNone:
      return "none";
  }
  return "none";
}

std::string RunReportJson(const RunReport& report) {
  const GenerationOutput& output = report.output;
  Json json{{"model", report.model},
            {"manifest_digest", report.manifest_digest},
            {"spine", report.settings.spine},
            {"kernel", report.settings.kernel},
            {"prompt_ids", report.prompt_ids},
            {"output_ids", output.ids},
            {"text", output.text}};
  if (!output.reasoning.empty()) json["reasoning"] = output.reasoning;
  if (!output.tool_calls.empty()) {
    json["tool_calls"] = ToolCallsJson(output.tool_calls);
  }
  json["finish_reason"] = FinishReasonName(output.result.finish_reason);
  json["usage"] = {
      {"prompt_tokens", output.result.usage.prompt_tokens},
      {"completion_tokens", output.result.usage.completion_tokens}};
  json["timings"] = TimingsJson(report);
  json["output_sha256"] = report.output_sha256;
  if (!output.logprobs.empty()) {
    json["logprobs"] = LogprobsJson(output.logprobs);
  }
  if (report.statistics.has_value()) {
    json["stats"] = StatsJson(*report.statistics);
  }
  return Dump(json);
}

std::string StatisticsJson(const RunStatistics& statistics) {
  return Dump(StatsJson(statistics));
}

absl::StatusOr<std::string> OutputSha256(const std::vector<int32_t>& output_ids,
                                         const std::string& dump_path) {
  Sha256 hash;
  hash.Update({reinterpret_cast<const uint8_t*>(output_ids.data()),
               output_ids.size() * sizeof(int32_t)});
  if (!dump_path.empty()) RETURN_IF_ERROR(HashDumpedRows(dump_path, hash));
  return hash.FinishHex();
}

}  // namespace deltafin
