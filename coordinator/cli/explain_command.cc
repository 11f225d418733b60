#include "coordinator/cli/explain_command.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "common/base/status_macros.h"
#include "coordinator/cli/admin_client.h"
#include "coordinator/cli/standard_output.h"
#include "coordinator/cli/text_table.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

using Json = nlohmann::ordered_json;
using Parts = google::protobuf::RepeatedPtrField<v1::Explanation::Part>;
using Layers = google::protobuf::RepeatedPtrField<v1::Explanation::SlowLayer>;

constexpr char kExplainFooter[] = R"(
REQUEST is the request_id of a GenerateReply's last message; without it the
request that finished last is meant. The last 64 are remembered.

Examples:
  deltafin explain
  deltafin explain 17 --json)";

std::string Ms(double seconds) { return fmt::format("{:.2f}", 1e3 * seconds); }

std::string PartLines(const Parts& parts, double seconds) {
  TextTable table({"where", "ms", "of it"});
  for (const v1::Explanation::Part& part : parts) {
    const double percent = seconds > 0 ? 100 * part.seconds() / seconds : 0;
    table.Add(
        {part.where(), Ms(part.seconds()), fmt::format("{:.0f}%", percent)});
  }
  return table.ToString();
}

std::string LayerLines(const Layers& layers) {
  TextTable table({"layer", "waited ms", "for node", "queue", "disk", "CPU",
                   "link", "remark"});
  for (const v1::Explanation::SlowLayer& layer : layers) {
    table.Add({fmt::format("{}", layer.layer()), Ms(layer.seconds()),
               layer.node(), Ms(layer.queue_seconds()),
               Ms(layer.read_seconds()), Ms(layer.compute_seconds()),
               Ms(layer.link_seconds()), layer.remark()});
  }
  return table.ToString();
}

Json PartsJson(const Parts& parts) {
  Json json = Json::object();
  for (const v1::Explanation::Part& part : parts) {
    json[part.where()] = part.seconds();
  }
  return json;
}

Json LayersJson(const Layers& layers) {
  Json json = Json::array();
  for (const v1::Explanation::SlowLayer& layer : layers) {
    json.push_back({{"layer", layer.layer()},
                    {"node", layer.node()},
                    {"seconds", layer.seconds()},
                    {"queue_seconds", layer.queue_seconds()},
                    {"read_seconds", layer.read_seconds()},
                    {"compute_seconds", layer.compute_seconds()},
                    {"link_seconds", layer.link_seconds()},
                    {"remark", layer.remark()}});
  }
  return json;
}

}  // namespace

ExplainCommand::ExplainCommand(CLI::App& app) {
  app.footer(kExplainFooter);
  app.add_option("REQUEST", request_, "Request id (default: the last one)");
  AdminClient::AddFlags(app, &target_);
  app.add_flag("--json", json_, "Print one JSON object");
}

absl::Status ExplainCommand::Run(TerminationSignal& /*signals*/) {
  ASSIGN_OR_RETURN(AdminClient client, AdminClient::Create(target_));
  ASSIGN_OR_RETURN(const v1::Explanation explanation, client.Explain(request_));
  WriteOutput(json_ ? ExplanationJson(explanation)
                    : ExplanationTable(explanation));
  return absl::OkStatus();
}

std::string ExplanationTable(const v1::Explanation& explanation) {
  std::string text = fmt::format(
      "request {}: {} tokens in {:.3f} s\n\nprompt and first token: {} ms\n",
      explanation.request(), explanation.tokens(), explanation.seconds(),
      Ms(explanation.prompt_seconds()));
  text += PartLines(explanation.prompt_parts(), explanation.prompt_seconds());
  text += LayerLines(explanation.prompt_layers());
  if (explanation.slowest_token() == 0) return text;
  text += fmt::format("\nslowest later token, number {}: {} ms\n",
                      explanation.slowest_token() + 1,
                      Ms(explanation.slowest_seconds()));
  text += PartLines(explanation.parts(), explanation.slowest_seconds());
  return text + LayerLines(explanation.layers());
}

std::string ExplanationJson(const v1::Explanation& explanation) {
  const Json json = {{"request", explanation.request()},
                     {"tokens", explanation.tokens()},
                     {"seconds", explanation.seconds()},
                     {"prompt",
                      {{"seconds", explanation.prompt_seconds()},
                       {"parts", PartsJson(explanation.prompt_parts())},
                       {"layers", LayersJson(explanation.prompt_layers())}}},
                     {"slowest",
                      {{"token", explanation.slowest_token()},
                       {"seconds", explanation.slowest_seconds()},
                       {"parts", PartsJson(explanation.parts())},
                       {"layers", LayersJson(explanation.layers())}}}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace deltafin
