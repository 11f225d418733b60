#include "coordinator/cli/eval_command.h"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/base/file_io.h"
#include "common/base/status_macros.h"
#include "common/net/exit_code.h"
#include "common/net/secret_file.h"
#include "coordinator/cli/endpoint_loss.h"
#include "coordinator/cli/eval_windows.h"
#include "coordinator/cli/loss.h"
#include "coordinator/cli/row_file.h"

namespace deltafin {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kMaxTextBytes = uint64_t{1} << 30;
constexpr uint64_t kMaxKeyBytes = 4096;

constexpr char kEvalFooter[] = R"(
Each window is the beginning-of-text token and the next W - 1 tokens of the
text; the loss is the mean over all predicted tokens.

Examples:
  deltafin eval --text book.txt --window 4096 --max-windows 1
  deltafin eval --model DIR --text book.txt --spine int8 --against bf16
  deltafin eval --text book.txt --window 1024 --compare http://HOST:8000/v1 \
      --compare-model NAME)";

struct SpineResult {
  std::string spine;  // as the spine names itself
  std::string kernel;
  LossMeter loss;
  size_t windows = 0;
};

int64_t NumPredicted(const Windows& windows) {
  int64_t count = 0;
  for (const auto& window : windows) {
    count += static_cast<int64_t>(window.size()) - 1;
  }
  return count;
}

// The windows of a text, and a look at what else a model is read for.
absl::StatusOr<Windows> ReadWindows(const std::string& text_file,
                                    const Coordinator& coordinator, int window,
                                    int max_windows) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(text_file, kMaxTextBytes));
  absl::StatusOr<std::vector<int32_t>> ids =
      coordinator.tokenizer().Encode(text);
  if (!ids.ok()) return AddContext(ids.status(), text_file);
  if (ids->empty()) {
    return absl::InvalidArgumentError(text_file + ": the text is empty");
  }
  return CutWindows(*ids, coordinator.model().spec.bos_token_id, window,
                    max_windows);
}

// Loads a spine, runs the windows, lets go of the spine. `on_row` sees each row
// besides the loss.
absl::StatusOr<SpineResult> Measure(
    Coordinator& coordinator, const Windows& windows,
    const std::function<absl::Status(std::span<const float>)>& on_row) {
  RETURN_IF_ERROR(coordinator.Init());
  RETURN_IF_ERROR(coordinator.Start());
  SpineResult result;
  result.spine = coordinator.settings().spine;
  result.kernel = coordinator.settings().kernel;
  result.windows = windows.size();
  Generation generation(coordinator);
  const Vocabulary& vocabulary = coordinator.tokenizer().vocabulary();
  RETURN_IF_ERROR(EvaluateWindows(
      windows, generation, [&](int32_t id, std::span<const float> logits) {
        result.loss.Add(NegativeLogLikelihood(logits, id),
                        static_cast<int64_t>(vocabulary.Bytes(id).size()));
        return on_row(logits);
      }));
  coordinator.Shutdown();
  return result;
}

std::string LossLine(const SpineResult& result) {
  return fmt::format(
      "{:<12} {:.6f} nats/token, {:.6f} bits/byte over {} tokens in {} "
      "window(s)\n",
      result.spine, result.loss.mean_nll(), result.loss.bits_per_byte(),
      result.loss.tokens(), result.windows);
}

Json LossJson(const SpineResult& result) {
  return {{"spine", result.spine},
          {"kernel", result.kernel},
          {"windows", result.windows},
          {"tokens", result.loss.tokens()},
          {"mean_nll", result.loss.mean_nll()},
          {"bits_per_byte", result.loss.bits_per_byte()}};
}

std::string AgreementLines(const AgreementMeter& meter) {
  return fmt::format(
      "agreement    top-1 {:.4f} %, top-5 {:.4f} %; logits shift by {:.6f} on "
      "average, {:.6f} at most\n",
      100 * meter.top1(), 100 * meter.top5(), meter.mean_shift(),
      meter.max_shift());
}

Json AgreementJson(const AgreementMeter& meter) {
  return {{"top1", meter.top1()},
          {"top5", meter.top5()},
          {"mean_logit_shift", meter.mean_shift()},
          {"max_logit_shift", meter.max_shift()}};
}

void Print(const SpineResult& result, bool json) {
  if (json) {
    std::puts(LossJson(result).dump().c_str());
  } else {
    std::fputs(LossLine(result).c_str(), stdout);
  }
}

void PrintComparison(const SpineResult& result, const SpineResult& against,
                     const AgreementMeter& meter, bool json) {
  if (!json) {
    std::fputs(
        (LossLine(result) + LossLine(against) + AgreementLines(meter)).c_str(),
        stdout);
    return;
  }
  Json report = LossJson(result);
  report["against"] = LossJson(against);
  report["nll_difference"] = result.loss.mean_nll() - against.loss.mean_nll();
  report["agreement"] = AgreementJson(meter);
  std::puts(report.dump().c_str());
}

}  // namespace

EvalCommand::EvalCommand(CLI::App& app) {
  app.footer(kEvalFooter);
  coordinator_flags_.AddTo(app);
  app.add_option("--text", text_file_, "UTF-8 text to predict")->required();
  app.add_option("--window", window_, "Tokens of a window, BOS included")
      ->capture_default_str()
      ->check(CLI::Range(2, 1 << 20));
  app.add_option("--max-windows", max_windows_, "Windows at most (0: all)")
      ->capture_default_str()
      ->check(CLI::Range(0, std::numeric_limits<int>::max()));
  app.add_option("--against", against_,
                 "Compare with the spine of this precision: bf16 or int8")
      ->check(CLI::IsMember({"bf16", "int8"}));
  CLI::Option* const compare = app.add_option(
      "--compare", compare_url_,
      "Compare with the model behind an OpenAI-compatible endpoint "
      "that scores prompts: http://HOST:PORT/v1");
  app.add_option("--compare-model", compare_model_,
                 "With --compare: the model's name there")
      ->needs(compare);
  app.add_option("--compare-key-file", compare_key_file_,
                 "With --compare: file with the key to show")
      ->needs(compare);
  app.add_option("--compare-as", compare_as_,
                 "With --compare: send windows as text, or as the ids of this "
                 "model's tokenizer")
      ->capture_default_str()
      ->check(CLI::IsMember({"text", "ids"}))
      ->needs(compare);
  app.add_flag("--json", json_, "Print one JSON object");
}

absl::Status EvalCommand::Run(TerminationSignal& /*signals*/) {
  if (!compare_url_.empty() && compare_model_.empty()) {
    return UsageError("--compare needs --compare-model");
  }
  if (!compare_url_.empty() && !against_.empty()) {
    return UsageError("--compare and --against: give one of them");
  }
  ASSIGN_OR_RETURN(CoordinatorOptions options, coordinator_flags_.Options());
  options.max_sequences = 1;
  options.prefix_cache_bytes = 0;  // nothing comes after it
  if (options.context_tokens == 0) options.context_tokens = window_;
  Coordinator coordinator(options);
  RETURN_IF_ERROR(coordinator.ReadModel());
  ASSIGN_OR_RETURN(const Windows windows,
                   ReadWindows(text_file_, coordinator, window_, max_windows_));
  if (!against_.empty()) return Compare(coordinator, options, windows);
  if (!compare_url_.empty()) return CompareEndpoint(coordinator, windows);
  ASSIGN_OR_RETURN(const SpineResult result,
                   Measure(coordinator, windows, [](std::span<const float>) {
                     return absl::OkStatus();
                   }));
  Print(result, json_);
  return absl::OkStatus();
}

absl::Status EvalCommand::CompareEndpoint(Coordinator& coordinator,
                                          const Windows& windows) const {
  EndpointModel there;
  there.endpoint.url = compare_url_;
  there.name = compare_model_;
  there.form = compare_as_ == "ids" ? WindowForm::kIds : WindowForm::kText;
  if (!compare_key_file_.empty()) {
    ASSIGN_OR_RETURN(there.endpoint.key,
                     ReadSecretFile(compare_key_file_, kMaxKeyBytes));
    const size_t end = there.endpoint.key.find_first_of(" \r\n");
    there.endpoint.key = there.endpoint.key.substr(0, end);
  }
  SpineResult against;
  against.spine = compare_model_;
  against.windows = windows.size();
  RETURN_IF_ERROR(
      MeasureEndpoint(there, windows, coordinator.tokenizer(), against.loss));
  ASSIGN_OR_RETURN(const SpineResult here,
                   Measure(coordinator, windows, [](std::span<const float>) {
                     return absl::OkStatus();
                   }));
  if (!json_) {
    std::fputs((LossLine(here) + LossLine(against)).c_str(), stdout);
    return absl::OkStatus();
  }
  Json report = LossJson(here);
  report["against"] = LossJson(against);
  report["nll_difference"] = here.loss.mean_nll() - against.loss.mean_nll();
  std::puts(report.dump().c_str());
  return absl::OkStatus();
}

absl::Status EvalCommand::Compare(Coordinator& coordinator,
                                  CoordinatorOptions options,
                                  const Windows& windows) const {
  ASSIGN_OR_RETURN(
      RowFile rows,
      RowFile::Create(std::filesystem::temp_directory_path().string(),
                      NumPredicted(windows),
                      coordinator.model().spec.vocab_size));
  ASSIGN_OR_RETURN(
      const SpineResult result,
      Measure(coordinator, windows, [&rows](std::span<const float> row) {
        return rows.Append(row);
      }));
  options.precision =
      against_ == "int8" ? SpinePrecision::kInt8 : SpinePrecision::kBf16;
  options.device = "cpu";
  options.device_ram_bytes.reset();
  Coordinator other(std::move(options));
  AgreementMeter meter;
  ASSIGN_OR_RETURN(
      const SpineResult against,
      Measure(other, windows, [&](std::span<const float> row) -> absl::Status {
        ASSIGN_OR_RETURN(const std::span<const float> first, rows.Next());
        meter.Add(first, row);
        return absl::OkStatus();
      }));
  PrintComparison(result, against, meter, json_);
  return absl::OkStatus();
}

}  // namespace deltafin
