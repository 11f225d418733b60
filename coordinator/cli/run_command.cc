#include "coordinator/cli/run_command.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <optional>
#include <utility>

#include "common/base/status_macros.h"
#include "common/net/exit_code.h"
#include "coordinator/cli/logits_dump.h"
#include "coordinator/cli/standard_output.h"
#include "coordinator/cli/stats_table.h"
#include "coordinator/engine/request_check.h"

namespace deltafin {
namespace {

constexpr char kRunFooter[] = R"(
Text goes to standard output as it comes, everything else to standard error.

Examples:
  deltafin run --prompt "It was a dark" --max-new-tokens 16
  deltafin run --chat --prompt "Who are you?" --thinking low
  deltafin run --prompt-file story.txt --temperature 0.8 --top-p 0.95 --seed 7
  deltafin run --prompt "It was" --nodes host-a:7400,host-b:7400 --stats
  deltafin run --prompt "It was" --json --dump-logits logits.safetensors)";

// The answer to standard output, reasoning to standard error. False when the
// answer has no reader.
bool PrintDelta(std::string_view content, std::string_view reasoning) {
  std::fwrite(reasoning.data(), 1, reasoning.size(), stderr);
  return WriteOutput(content);
}

}  // namespace

RunCommand::RunCommand(CLI::App& app) {
  app.footer(kRunFooter);
  prompt_flags_.AddTo(app);
  generation_flags_.AddTo(app);
  generation_flags_.AddLogprobsTo(app);
  coordinator_flags_.AddTo(app);
  app.add_flag("--json", json_, "Print one JSON object instead of the text");
  app.add_flag("--stats", stats_, "Tell where the time went");
  app.add_option("--dump-logits", dump_logits_,
                 "Write the logits after every position: f32 tensor `logits` "
                 "[positions, vocabulary], safetensors");
}

absl::Status RunCommand::Run(TerminationSignal& signals) {
  RETURN_IF_ERROR(prompt_flags_.Check());
  ASSIGN_OR_RETURN(GenerationRequest request, generation_flags_.Request());
  if (request.want_logprobs && !json_) {
    return UsageError("--logprobs needs --json: the text has no room for them");
  }
  ASSIGN_OR_RETURN(CoordinatorOptions options, coordinator_flags_.Options());
  options.max_sequences = 1;
  options.prefix_cache_bytes = 0;  // nothing comes after it
  Coordinator coordinator(std::move(options));
  Generation generation(coordinator);
  // While the model loads there is nothing to end in good order.
  const SignalHandling handling(
      signals, [&generation](int) { return generation.Cancel(); });
  RETURN_IF_ERROR(coordinator.ReadModel());
  ASSIGN_OR_RETURN(
      Prompt prompt,
      prompt_flags_.Encode(coordinator.tokenizer(), coordinator.model().spec));
  request.prompt_ids = std::move(prompt.ids);
  RETURN_IF_ERROR(CheckBeforeLoad(coordinator, request));
  ASSIGN_OR_RETURN(RunReport report, Load(coordinator));
  report.prompt_ids = request.prompt_ids;
  absl::StatusOr<GenerationOutput> output = Generate(
      generation, coordinator.model().spec.vocab_size, std::move(request),
      {prompt.chat, generation_flags_.stop_strings()});
  if (absl::IsCancelled(output.status())) {
    return InterruptedError(signals.last());
  }
  RETURN_IF_ERROR(output.status());
  report.output = *std::move(output);
  ASSIGN_OR_RETURN(report.output_sha256,
                   OutputSha256(report.output.ids, dump_logits_));
  if (stats_) {
    report.statistics = coordinator.Statistics();
  }
  return Print(report);
}

// What would be refused after the long load is refused before it.
absl::Status RunCommand::CheckBeforeLoad(
    const Coordinator& coordinator, const GenerationRequest& request) const {
  RETURN_IF_ERROR(CheckRequest(request, coordinator.model().spec.vocab_size,
                               coordinator.context_tokens()));
  if (dump_logits_.empty()) return absl::OkStatus();
  return LogitsDump::Create(dump_logits_, 1).status();
}

absl::StatusOr<RunReport> RunCommand::Load(Coordinator& coordinator) {
  const absl::Time begin = absl::Now();
  RETURN_IF_ERROR(coordinator.Init());
  RETURN_IF_ERROR(coordinator.Start());
  RunReport report;
  report.load_seconds = absl::ToDoubleSeconds(absl::Now() - begin);
  report.model = coordinator.model().dir;
  report.manifest_digest = coordinator.model().manifest_digest;
  report.settings = coordinator.settings();
  return report;
}

absl::StatusOr<GenerationOutput> RunCommand::Generate(
    Generation& generation, int vocab_size, GenerationRequest request,
    TextSinkOptions text) const {
  GenerationCallbacks callbacks;
  if (!json_) {
    callbacks.on_text = [&generation](std::string_view content,
                                      std::string_view reasoning) {
      if (!PrintDelta(content, reasoning)) generation.Cancel();
    };
  }
  std::optional<LogitsDump> dump;
  absl::Status dump_status;  // the engine thread's until Run returns
  if (!dump_logits_.empty()) {
    ASSIGN_OR_RETURN(dump, LogitsDump::Create(dump_logits_, vocab_size));
    callbacks.on_logits = [&](int64_t, std::span<const float> row) {
      if (!dump_status.ok()) return;
      dump_status = dump->Append(row);
      if (!dump_status.ok()) generation.Cancel();
    };
    request.want_all_logits = true;
  }
  absl::StatusOr<GenerationOutput> output =
      generation.Run(std::move(request), std::move(text), std::move(callbacks));
  RETURN_IF_ERROR(dump_status);
  RETURN_IF_ERROR(FlushOutput());
  RETURN_IF_ERROR(output.status());
  if (dump.has_value()) RETURN_IF_ERROR(dump->Commit());
  return output;
}

absl::Status RunCommand::Print(const RunReport& report) const {
  if (json_) {
    std::puts(RunReportJson(report).c_str());
    return absl::OkStatus();
  }
  std::putchar('\n');
  std::fflush(stdout);
  if (report.statistics.has_value()) {
    std::fputs(StatsTable(*report.statistics).c_str(), stderr);
  }
  return absl::OkStatus();
}

}  // namespace deltafin
