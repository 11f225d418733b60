#include "coordinator/cli/doctor_command.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "common/base/progress.h"
#include "common/base/status_macros.h"
#include "common/net/exit_code.h"
#include "expert_node/storage/model_check.h"

namespace deltafin {
namespace {

constexpr char kDoctorFooter[] = R"(
Examples:
  deltafin doctor /models/k3           what is there, in a moment
  deltafin doctor --deep /models/k3    reads every byte
Nothing is changed and no network is used. Exit codes: 0 all is well, 1 not.)";

// "3", "0-5, 9".
std::string RangesText(const std::vector<int>& numbers) {
  std::string text;
  for (size_t begin = 0; begin < numbers.size();) {
    size_t end = begin + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    if (!text.empty()) text += ", ";
    text += end - begin == 1
                ? fmt::format("{}", numbers[begin])
                : fmt::format("{}-{}", numbers[begin], numbers[end - 1]);
    begin = end;
  }
  return text;
}

std::string LineOf(const ModelFinding& finding) {
  std::string line = finding.path + " " + finding.problem;
  if (finding.layer >= 0) line += fmt::format(", layer {}", finding.layer);
  if (!finding.experts.empty()) {
    line += fmt::format(" expert{} {}", finding.experts.size() > 1 ? "s" : "",
                        RangesText(finding.experts));
  }
  if (!finding.slices.empty()) {
    line += fmt::format(" slice{} {}", finding.slices.size() > 1 ? "s" : "",
                        RangesText(finding.slices));
  }
  return line + "\n";
}

bool IsStreaming(const ModelCheck& check) {
  return check.experts == InstallOrigin::Experts::kOnDemand;
}

std::string TextOf(const std::string& dir, const ModelCheck& check) {
  std::string text;
  for (const ModelFinding& finding : check.findings) text += LineOf(finding);
  text += fmt::format("{}: from {}, {} of {} experts installed{}\n", dir,
                      check.source, check.experts_held, check.experts_total,
                      IsStreaming(check) ? ", streaming" : "");
  if (!check.command.empty()) {
    text += fmt::format("this mends it: {}\n", check.command);
  }
  return text;
}

std::string JsonOf(const std::string& dir, const ModelCheck& check) {
  nlohmann::json findings = nlohmann::json::array();
  for (const ModelFinding& finding : check.findings) {
    nlohmann::json one = {{"path", finding.path}, {"problem", finding.problem}};
    if (finding.layer >= 0) one["layer"] = finding.layer;
    if (!finding.experts.empty()) one["experts"] = finding.experts;
    if (!finding.slices.empty()) one["slices"] = finding.slices;
    findings.push_back(std::move(one));
  }
  const nlohmann::json json = {{"dir", dir},
                               {"source", check.source},
                               {"streaming", IsStreaming(check)},
                               {"experts_installed", check.experts_held},
                               {"experts", check.experts_total},
                               {"findings", std::move(findings)},
                               {"command", check.command}};
  return json.dump() + "\n";
}

}  // namespace

DoctorCommand::DoctorCommand(CLI::App& app) {
  app.footer(kDoctorFooter);
  app.add_option("DIR", dir_, "Installed model")->required();
  app.add_flag("--deep", deep_, "Compare every byte with its digest");
  app.add_flag("--json", json_, "Print one JSON object");
}

absl::Status DoctorCommand::Run(TerminationSignal& /*signals*/) {
  Progress progress("checking");
  ASSIGN_OR_RETURN(
      const ModelCheck check,
      CheckModel(dir_, deep_ ? CheckDepth::kDeep : CheckDepth::kShallow,
                 [&progress](uint64_t done, uint64_t total) {
                   progress.Update(done, total);
                 }));
  const std::string text = json_ ? JsonOf(dir_, check) : TextOf(dir_, check);
  std::fputs(text.c_str(), stdout);
  if (check.findings.empty()) return absl::OkStatus();
  return WithExitCode(
      absl::DataLossError(fmt::format("{}: {} thing{} missing or damaged", dir_,
                                      check.findings.size(),
                                      check.findings.size() > 1 ? "s" : "")),
      kExitFailed);
}

}  // namespace deltafin
