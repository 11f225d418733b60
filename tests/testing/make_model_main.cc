// deltafin_make_model: writes a model directory with generated weights.
//
//   --out DIR            where to; required
//   --preset NAME        tiny (default) or full-width
//   --config FILE        dimensions of this config.json instead of a preset;
//                        its folder also supplies the tokenizer
//   --layers N           layers of a preset (default 4)
//   --experts E          experts a layer of a preset (default 24)
//   --top-k K            experts a token
//   --seed S             (default 1)

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include "absl/strings/numbers.h"
#include "common/base/file_io.h"
#include "common/base/progress.h"
#include "common/base/status_macros.h"
#include "tests/testing/synthetic_config.h"
#include "tests/testing/synthetic_model.h"

namespace deltafin {
namespace {

using Flags = std::map<std::string, std::string>;

absl::StatusOr<Flags> ParseFlags(int argc, char** argv) {
  Flags flags = {{"--out", ""},     {"--preset", "tiny"}, {"--config", ""},
                 {"--layers", "4"}, {"--experts", "24"},  {"--top-k", ""},
                 {"--seed", "1"}};
  for (int i = 1; i < argc; i += 2) {
    const auto flag = flags.find(argv[i]);
    if (flag == flags.end() || i + 1 == argc) {
      return absl::InvalidArgumentError(
          fmt::format("{} is no flag or has no value", argv[i]));
    }
    flag->second = argv[i + 1];
  }
  if (flags["--out"].empty()) {
    return absl::InvalidArgumentError("--out DIR is missing");
  }
  return flags;
}

absl::StatusOr<int> Number(const Flags& flags, const std::string& name) {
  int value = 0;
  if (!absl::SimpleAtoi(flags.at(name), &value) || value < 1) {
    return absl::InvalidArgumentError(
        fmt::format("{} '{}' is no positive number", name, flags.at(name)));
  }
  return value;
}

absl::StatusOr<ModelSpec> PresetSpec(const Flags& flags) {
  ASSIGN_OR_RETURN(const int layers, Number(flags, "--layers"));
  ASSIGN_OR_RETURN(const int experts, Number(flags, "--experts"));
  const std::string& preset = flags.at("--preset");
  if (preset == "tiny") return TinySpec(layers, experts);
  if (preset == "full-width") return FullWidthSpec(layers, experts);
  return absl::InvalidArgumentError(
      fmt::format("--preset {} is neither tiny nor full-width", preset));
}

absl::Status MakeModel(int argc, char** argv) {
  ASSIGN_OR_RETURN(const Flags flags, ParseFlags(argc, argv));
  SyntheticModelOptions options;
  const std::string& config = flags.at("--config");
  if (config.empty()) {
    ASSIGN_OR_RETURN(options.spec, PresetSpec(flags));
  } else {
    ASSIGN_OR_RETURN(const std::string json, ReadFile(config, 16 << 20));
    ASSIGN_OR_RETURN(options.spec, ModelSpec::Parse(json));
    options.tokenizer_dir = std::filesystem::path(config).parent_path();
  }
  if (!flags.at("--top-k").empty()) {
    ASSIGN_OR_RETURN(options.spec.num_experts_per_token,
                     Number(flags, "--top-k"));
  }
  ASSIGN_OR_RETURN(const int seed, Number(flags, "--seed"));
  options.seed = static_cast<uint64_t>(seed);
  // What cannot be read back is refused before gigabytes are written.
  RETURN_IF_ERROR(ModelSpec::Parse(ConfigJson(options.spec)).status());
  Progress progress("writing " + flags.at("--out"));
  return MakeSyntheticModel(options, flags.at("--out"),
                            [&progress](uint64_t done, uint64_t total) {
                              progress.Update(done, total);
                            });
}

}  // namespace
}  // namespace deltafin

int main(int argc, char** argv) {
  const absl::Status status = deltafin::MakeModel(argc, argv);
  if (status.ok()) return EXIT_SUCCESS;
  std::fprintf(stderr, "deltafin_make_model: %s\n",
               std::string(status.message()).c_str());
  return EXIT_FAILURE;
}
