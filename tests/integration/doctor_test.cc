// Each kind of damage is named, with the one command that mends it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "tests/integration/deltafin_program.h"
#include "tests/integration/setup_case.h"
#include "tests/testing/model_copy.h"
#include "tests/testing/temp_dir.h"

namespace deltafin::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

struct Damage {
  const char* name;
  std::function<void(const std::string& dir)> make;
  bool deep;  // found only by reading every byte
  Words parts;
  const char* flags;  // of the command that mends it
};

void Flip(const std::string& path, uint64_t offset) {
  EditFile(path, offset, [](uint8_t& byte) { byte ^= 0x40; });
}

std::vector<Damage> AllDamage() {
  const std::string shard = "model-00003-of-000014.safetensors";
  const std::string records = "/experts/layer-05";
  return {
      {"MissingSpineFile",
       [=](const auto& dir) { fs::remove(dir + "/spine/" + shard); },
       false,
       {"spine/" + shard + " is missing"},
       "--resume "},
      {"MissingTokenizer",
       [](const auto& dir) { fs::remove(dir + "/tiktoken.model"); },
       false,
       {"tiktoken.model is missing"},
       "--resume "},
      {"ShortHeader",
       [=](const auto& dir) {
         fs::resize_file(dir + "/headers/" + shard + ".header", 100);
       },
       false,
       {".header has 100 bytes, not "},
       "--resume "},
      {"FlippedSpineByte",
       [=](const auto& dir) { Flip(dir + "/spine/" + shard, 100'000); },
       true,
       {"spine/" + shard + " has the SHA-256"},
       "--resume "},
      {"FlippedRecordByte",
       [=](const auto& dir) { Flip(dir + records + ".experts", 8192 * 3 + 9); },
       true,
       {"layer-05.experts", "layer 5 expert", "slice 0"},
       "--resume --check "},
      {"TruncatedIndex",
       [=](const auto& dir) {
         const std::string path = dir + records + ".index";
         fs::resize_file(path, fs::file_size(path) - 7);
       },
       false,
       {"layer-05.index is damaged at offset", "layer 5 expert 63"},
       "--resume "},
      {"IndexWithoutHeader",
       [=](const auto& dir) { fs::resize_file(dir + records + ".index", 20); },
       false,
       {"layer-05.index"},
       "--resume --check "},
      {"ShortRecords",
       [=](const auto& dir) {
         fs::resize_file(dir + records + ".experts", 8192 * 60);
       },
       false,
       {"layer-05.experts has ", "expert 63"},
       "--resume --check "},
  };
}

class DoctorTest : public ::testing::TestWithParam<Damage> {};

TEST_P(DoctorTest, NamesTheDamageAndMendsIt) {
  const Damage& damage = GetParam();
  const TempDir folder;
  const std::string dir = folder.File("model");
  const ProcessResult setup =
      RunWith(Join(Join({"setup", "--full"}, FromNano()), {"--dir", dir}), {});
  ASSERT_EQ(setup.exit_code, 0) << setup.err;
  const auto whole = DigestsIn(dir, SourceFileIs::kPart);
  damage.make(dir);
  const auto damaged = DigestsIn(dir, SourceFileIs::kPart);
  ASSERT_NE(damaged, whole);

  const ProcessResult shallow = RunDeltafin({"doctor", dir});
  EXPECT_EQ(shallow.exit_code, damage.deep ? 0 : 1) << shallow.out;
  const ProcessResult deep = RunDeltafin({"doctor", "--deep", dir});
  EXPECT_EQ(deep.exit_code, 1) << deep.out;
  for (const std::string& part : damage.parts) {
    EXPECT_THAT(deep.out, HasSubstr(part));
  }
  EXPECT_EQ(DigestsIn(dir, SourceFileIs::kPart), damaged) << "doctor wrote";
  const std::string command =
      std::string("deltafin setup ") + damage.flags + "--dir " + dir;
  EXPECT_THAT(deep.out, HasSubstr("this mends it: " + command + "\n"));

  Words mend = {"setup", "--resume", "--dir", dir};
  if (std::string(damage.flags).find("--check") != std::string::npos) {
    mend.push_back("--check");
  }
  const ProcessResult mended = RunDeltafin(mend);
  EXPECT_EQ(mended.exit_code, 0) << mended.err;
  const ProcessResult after = RunDeltafin({"doctor", "--deep", dir});
  EXPECT_EQ(after.exit_code, 0) << after.out << after.err;
}

INSTANTIATE_TEST_SUITE_P(Damage, DoctorTest, ::testing::ValuesIn(AllDamage()),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

TEST(DoctorOfOthersTest, ReleasedFolderIsRefused) {
  const ProcessResult result = RunDeltafin({"doctor", NanoModelDir()});
  EXPECT_EQ(result.exit_code, 65);
  EXPECT_THAT(result.err, HasSubstr("no installed model"));
}

}  // namespace
}  // namespace deltafin::testing
