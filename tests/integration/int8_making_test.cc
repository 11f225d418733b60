// The int8 spine as programs make it: two at once, and where the disk is full.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "tests/integration/deltafin_program.h"
#include "tests/testing/temp_dir.h"

namespace deltafin::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Words Int8Run(const std::string& model) {
  return {
      DeltafinBinary(),   "run", "--model", model,          "--spine", "int8",
      "--max-new-tokens", "4",   "--json",  "--prompt-ids", "5,6,7"};
}

std::set<std::string> FilesIn(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.insert(entry.path().filename());
  }
  return names;
}

TEST(Int8MakingTest, TwoProcessesAtOnceMakeOneSpine) {
  const TempDir folder;
  const std::string model = folder.File("model");
  CopyNano(model);
  auto first = Process::Start(Int8Run(model));
  auto second = Process::Start(Int8Run(model));
  ASSERT_TRUE(first.ok() && second.ok());
  std::set<std::string> digests;
  for (const auto& process : {first->get(), second->get()}) {
    const auto code = process->Wait(absl::Minutes(2));
    ASSERT_TRUE(code.ok()) << code.status();
    ASSERT_EQ(*code, 0) << process->err();
    digests.insert(nlohmann::json::parse(process->out())["output_sha256"]);
  }
  EXPECT_EQ(digests.size(), 1u);
  const std::set<std::string> files = FilesIn(model + "/deltafin-spine-int8");
  EXPECT_EQ(files.size(), 15u);  // 13 layers, head, lock
  EXPECT_EQ(files.count("head.spine"), 1u);

  const std::string alone = folder.File("alone");
  CopyNano(alone);
  const auto report = RunProcess(Int8Run(alone), absl::Minutes(2));
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(nlohmann::json::parse(report->out)["output_sha256"],
            *digests.begin());
}

TEST(Int8MakingTest, FullDiskIsRefusedWithTheNumbers) {
  const TempDir folder;
  const std::string model = folder.File("model");
  const std::string small_disk = folder.File("disk");
  CopyNano(model);
  std::filesystem::create_directory(small_disk);
  // A file in the folder's place sends the spine to the cache folder.
  std::ofstream(model + "/deltafin-spine-int8") << "";
  // Mounted for this one process, in a namespace that ends with it.
  const std::string script =
      "mount -t tmpfs -o size=64k none \"$0\" || exit 111; exec \"$@\"";
  const auto result = RunProcess(
      Join({"/usr/bin/unshare", "--mount", "/bin/sh", "-c", script, small_disk},
           Join(Int8Run(model), {"--cache-dir", small_disk})),
      absl::Minutes(2));
  ASSERT_TRUE(result.ok()) << result.status();
  if (result->exit_code == 111 || result->exit_code == 1) {
    GTEST_SKIP() << "needs root to mount a small disk: " << result->err;
  }
  EXPECT_EQ(result->exit_code, 69) << result->err;
  EXPECT_THAT(result->err,
              AllOf(HasSubstr("the int8 spine needs"), HasSubstr(small_disk),
                    HasSubstr("free some or use the bf16 spine")));
}

}  // namespace
}  // namespace deltafin::testing
