#include "coordinator/cluster/drain_file.h"

#include <gtest/gtest.h>

#include "common/base/file_io.h"
#include "tests/testing/temp_dir.h"

namespace deltafin::testing {
namespace {

TEST(DrainFileTest, KeepsIdsFromOneProcessToTheNext) {
  const TempDir dir;
  auto file = DrainFile::Open(dir.path());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->ids().empty());
  ASSERT_TRUE(file->Save({"one", "two"}).ok());
  EXPECT_EQ(DrainFile::Open(dir.path())->ids(),
            (std::set<std::string>{"one", "two"}));
  ASSERT_TRUE(file->Save({}).ok());
  EXPECT_TRUE(DrainFile::Open(dir.path())->ids().empty());
}

TEST(DrainFileTest, WithoutAFolderNothingIsKept) {
  auto file = DrainFile::Open("");
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file->Save({"one"}).ok());
  EXPECT_EQ(file->ids().size(), 1u);
}

TEST(DrainFileTest, RefusesWhatIsDamagedOrOfAnotherRelease) {
  const TempDir dir;
  const std::string path = dir.path() + "/drained";
  const auto code = [&](const std::string& contents) {
    EXPECT_TRUE(WriteFileAtomically(path, contents).ok());
    return DrainFile::Open(dir.path()).status().code();
  };
  EXPECT_EQ(code("deltafin-drained 1\none\n"), absl::StatusCode::kOk);
  EXPECT_EQ(code("deltafin-drained 1\n"), absl::StatusCode::kOk);
  EXPECT_EQ(code("deltafin-drained 2\none\n"),
            absl::StatusCode::kInvalidArgument);
  std::string many = "deltafin-drained 1\n";
  for (int i = 0; i < 257; ++i) many += std::to_string(i) + "\n";
  for (const std::string& bad :
       {std::string(), std::string("deltafin-drained 1\none"),
        std::string("deltafin-drained 1\n\n"),
        std::string("deltafin-drained 1\na b\n"),
        std::string("deltafin-drained 1\n\x01\n"),
        "deltafin-drained 1\n" + std::string(129, 'x') + "\n",
        std::string("nonsense\n"), many}) {
    EXPECT_EQ(code(bad), absl::StatusCode::kDataLoss) << bad;
  }
}

}  // namespace
}  // namespace deltafin::testing
