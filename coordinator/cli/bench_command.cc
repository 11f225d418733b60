#include "coordinator/cli/bench_command.h"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string_view>

#include "common/base/status_macros.h"
#include "common/net/exit_code.h"
#include "coordinator/cli/child_run.h"
#include "coordinator/cli/default_model.h"
#include "coordinator/cli/flag_words.h"

namespace deltafin {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kBenchFooter[] = R"(
Each side runs once to warm up, then `--rounds` times A B B A.

Examples:
  deltafin bench --ab "--threads 1" "--threads 2"
  deltafin bench --ab "--kernel avx2" "--kernel avx512" --rounds 5 \
      --both "--prompt 'It was a dark' --max-new-tokens 64 --ignore-eos")";

constexpr char kDefaultFlags[] =
    "--prompt 'It was a dark and stormy night, and' --max-new-tokens 64 "
    "--ignore-eos";

absl::StatusOr<std::vector<std::string>> CommandLine(const std::string& both,
                                                     const std::string& own) {
  std::vector<std::string> argv{ExecutablePath(), "run", "--json",
                                "--log-level", "warn"};
  for (const std::string& line : {both, own}) {
    const absl::StatusOr<std::vector<std::string>> words = SplitFlagWords(line);
    if (!words.ok()) {
      return UsageError(line + ": " + std::string(words.status().message()));
    }
    argv.insert(argv.end(), words->begin(), words->end());
  }
  return argv;
}

// What a run said at its end, without the name that begins it.
std::string EndMessage(const ChildOutput& output) {
  constexpr std::string_view kName = "deltafin: ";
  std::string_view text = output.err;
  while (text.ends_with('\n')) text.remove_suffix(1);
  const size_t last = text.rfind(kName);
  if (last == std::string_view::npos) {
    return fmt::format("ended with {}: {}", output.exit_code, text);
  }
  return std::string(text.substr(last + kName.size()));
}

// Errors: the run's own, with its exit code.
absl::StatusOr<BenchRun> RunOnce(const std::vector<std::string>& argv,
                                 const std::string& flags,
                                 TerminationSignal& signals) {
  ASSIGN_OR_RETURN(const ChildOutput output, RunChild(argv, signals));
  if (output.exit_code != 0) {
    return WithExitCode(absl::AbortedError(fmt::format(
                            "run with \"{}\": {}", flags, EndMessage(output))),
                        output.exit_code);
  }
  return ParseBenchRun(output.out);
}

bool IsFlag(std::string_view word, std::string_view flag) {
  return word == flag || (word.starts_with(flag) && word[flag.size()] == '=');
}

bool HasFlag(const std::vector<std::string>& words, std::string_view flag) {
  return std::ranges::any_of(
      words, [flag](const std::string& word) { return IsFlag(word, flag); });
}

// Refuses lines that cannot be compared, before any is run.
absl::Status CheckSides(const std::vector<std::string>& a,
                        const std::vector<std::string>& b) {
  for (const char* flag : {"--help", "-h", "--version"}) {
    if (!HasFlag(a, flag) && !HasFlag(b, flag)) continue;
    return UsageError(fmt::format(
        "--ab: {} generates nothing that could be measured; leave it out",
        flag));
  }
  if (HasFlag(a, "--dump-logits") != HasFlag(b, "--dump-logits")) {
    return UsageError(
        "--ab: --dump-logits is in one side only, so the outputs could not be "
        "compared; give it to both sides or to none");
  }
  return absl::OkStatus();
}

std::string SpreadCell(const Spread& spread) {
  return fmt::format("{:>10.3f} ({:.3f} .. {:.3f})", 1e3 * spread.median,
                     1e3 * spread.least, 1e3 * spread.most);
}

std::string SideLines(const char* name, const BenchSide& side) {
  return fmt::format("{}  {}\n  prefill ms      {}\n  decode ms/token {}\n",
                     name, side.flags, SpreadCell(side.Prefill()),
                     SpreadCell(side.Decode()));
}

double Ratio(double a, double b) { return b > 0 ? a / b : 0; }

std::string Table(const BenchSide& a, const BenchSide& b) {
  return SideLines("A", a) + SideLines("B", b) +
         fmt::format("A / B, medians: prefill {:.3f}, decode {:.3f}\n",
                     Ratio(a.Prefill().median, b.Prefill().median),
                     Ratio(a.Decode().median, b.Decode().median)) +
         fmt::format("output {} in all {} runs\n", a.runs[0].output_sha256,
                     a.runs.size() + b.runs.size());
}

Json SpreadJson(const Spread& spread) {
  return {
      {"median", spread.median}, {"min", spread.least}, {"max", spread.most}};
}

Json SideJson(const BenchSide& side) {
  return {{"flags", side.flags},
          {"runs", side.runs.size()},
          {"prefill_seconds", SpreadJson(side.Prefill())},
          {"decode_seconds_per_token", SpreadJson(side.Decode())}};
}

}  // namespace

Spread BenchSide::Prefill() const {
  std::vector<double> values;
  for (const BenchRun& run : runs) values.push_back(run.prefill_seconds);
  return SpreadOf(std::move(values));
}

Spread BenchSide::Decode() const {
  std::vector<double> values;
  for (const BenchRun& run : runs) {
    values.push_back(run.decode_seconds_per_token);
  }
  return SpreadOf(std::move(values));
}

absl::StatusOr<BenchRun> ParseBenchRun(const std::string& json) {
  const Json report = Json::parse(json, nullptr, false);
  const Json::json_pointer prefill("/timings/prefill_seconds");
  const Json::json_pointer decode("/timings/decode_seconds");
  if (report.is_discarded() || !report.contains(prefill) ||
      !report.contains(decode) || !report.contains("output_ids") ||
      !report.contains("output_sha256")) {
    return absl::InternalError("run --json printed no report");
  }
  // The first token comes with the prompt.
  const size_t tokens = report["output_ids"].size();
  BenchRun run;
  run.prefill_seconds = report[prefill].get<double>();
  if (tokens > 1) {
    run.decode_seconds_per_token =
        report[decode].get<double>() / static_cast<double>(tokens - 1);
  }
  run.output_sha256 = report["output_sha256"].get<std::string>();
  return run;
}

absl::Status CheckSameOutput(const BenchSide& a, const BenchSide& b) {
  const std::string& expected = a.runs.at(0).output_sha256;
  for (const BenchSide* side : {&a, &b}) {
    for (const BenchRun& run : side->runs) {
      if (run.output_sha256 == expected) continue;
      return absl::AbortedError(
          fmt::format("outputs differ: \"{}\" gave {}, \"{}\" gave {}", a.flags,
                      expected, side->flags, run.output_sha256));
    }
  }
  return absl::OkStatus();
}

BenchCommand::BenchCommand(CLI::App& app) : both_(kDefaultFlags) {
  app.footer(kBenchFooter);
  // A pair takes both words as they come, also when they begin with dashes.
  app.add_option("--ab", ab_, "Two lines of flags of `deltafin run`")
      ->required();
  app.add_option("--both", both_, "Flags that both sides get")
      ->capture_default_str();
  app.add_option("--rounds", rounds_, "Rounds of A B B A")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  app.add_flag("--json", json_, "Print one JSON object");
}

// The first run of each is not measured: it warms the files up and makes what
// is made once.
absl::Status BenchCommand::RunInTurns(BenchSide& a, BenchSide& b,
                                      TerminationSignal& signals) const {
  ASSIGN_OR_RETURN(const std::vector<std::string> argv_a,
                   CommandLine(both_, a.flags));
  ASSIGN_OR_RETURN(const std::vector<std::string> argv_b,
                   CommandLine(both_, b.flags));
  RETURN_IF_ERROR(CheckSides(argv_a, argv_b));
  RETURN_IF_ERROR(RunOnce(argv_a, a.flags, signals).status());
  RETURN_IF_ERROR(RunOnce(argv_b, b.flags, signals).status());
  for (int round = 0; round < rounds_; ++round) {
    for (const char turn : {'a', 'b', 'b', 'a'}) {
      BenchSide& side = turn == 'a' ? a : b;
      ASSIGN_OR_RETURN(BenchRun run, RunOnce(turn == 'a' ? argv_a : argv_b,
                                             side.flags, signals));
      side.runs.push_back(std::move(run));
    }
  }
  return absl::OkStatus();
}

absl::Status BenchCommand::Run(TerminationSignal& signals) {
  BenchSide a{ab_.first, {}};
  BenchSide b{ab_.second, {}};
  RETURN_IF_ERROR(RunInTurns(a, b, signals));
  RETURN_IF_ERROR(CheckSameOutput(a, b));
  if (json_) {
    const Json report{{"a", SideJson(a)},
                      {"b", SideJson(b)},
                      {"output_sha256", a.runs[0].output_sha256}};
    std::puts(report.dump().c_str());
  } else {
    std::fputs(Table(a, b).c_str(), stdout);
  }
  return absl::OkStatus();
}

}  // namespace deltafin
