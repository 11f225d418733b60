#include "tests/integration/deltafin_program.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace deltafin::testing {

namespace fs = std::filesystem;

Words Join(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

ProcessResult RunDeltafin(const Words& arguments, absl::Duration timeout) {
  absl::StatusOr<ProcessResult> result =
      RunProcess(Join({DeltafinBinary()}, arguments), timeout);
  if (!result.ok()) {
    ADD_FAILURE() << result.status();
    return {-1, "", ""};
  }
  return *std::move(result);
}

nlohmann::json RunDeltafinJson(const Words& arguments, absl::Duration timeout) {
  const ProcessResult result =
      RunDeltafin(Join(arguments, {"--json"}), timeout);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  nlohmann::json json = nlohmann::json::parse(result.out, nullptr, false);
  EXPECT_TRUE(json.is_object()) << result.out;
  return json;
}

nlohmann::json ReadJsonFile(const std::string& path) {
  std::ifstream file(path);
  nlohmann::json json = nlohmann::json::parse(file, nullptr, false);
  EXPECT_TRUE(json.is_object()) << path;
  return json;
}

void CopyNano(const std::string& to) {
  std::error_code error;
  fs::copy(NanoModelDir(), to, fs::copy_options::recursive, error);
  ASSERT_FALSE(error) << error.message();
  // Spines packed beside the original, as somebody's `--spine int8` does.
  for (const char* packed : {"bf16", "int8"}) {
    fs::remove_all(absl::StrCat(to, "/deltafin-spine-", packed), error);
    ASSERT_FALSE(error) << error.message();
  }
}

void MakeTinyModel(const std::string& to, int seed, const Words& set) {
  Words command{
      "/usr/bin/python3",
      std::string(DELTAFIN_SOURCE_DIR) + "/tests/reference/make_tiny.py", to,
      "--seed", std::to_string(seed)};
  for (const std::string& word : set) {
    command = Join(command, {"--set", word});
  }
  const absl::StatusOr<ProcessResult> made =
      RunProcess(command, absl::Minutes(2));
  ASSERT_TRUE(made.ok()) << made.status();
  ASSERT_EQ(made->exit_code, 0) << made->err;
}

}  // namespace deltafin::testing
