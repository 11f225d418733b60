#include "expert_node/storage/model_installer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>

#include "common/base/manifest.h"
#include "common/base/safetensors.h"
#include "expert_node/storage/directory_source.h"
#include "expert_node/storage/installed_experts.h"
#include "expert_node/storage/known_release.h"
#include "expert_node/storage/local_store.h"
#include "expert_node/storage/model_check.h"
#include "expert_node/storage/shard_table.h"
#include "expert_node/storage/spine_source.h"
#include "tests/testing/temp_dir.h"

namespace deltafin {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const std::string kNano =
    std::string(DELTAFIN_SOURCE_DIR) + "/deploy/models/k3-nano";

InstallOrigin NanoOrigin(InstallOrigin::Experts experts) {
  InstallOrigin origin;
  origin.directory = kNano;
  origin.experts = experts;
  return origin;
}

absl::Status Install(const std::string& dir, const InstallOrigin& origin,
                     InstallOptions options = {}) {
  absl::StatusOr<OpenedSource> source = OpenOrigin(origin, {});
  if (!source.ok()) return source.status();
  options.reserve_bytes = 0;
  auto installer =
      ModelInstaller::Prepare(dir, *std::move(source), std::move(options));
  if (!installer.ok()) return installer.status();
  return (*installer)->Run();
}

class ModelInstallerTest : public ::testing::Test {
 protected:
  absl::Status InstallAll(InstallOptions options = {}) {
    return Install(dir_, NanoOrigin(InstallOrigin::Experts::kAll),
                   std::move(options));
  }
  ModelCheck Check(CheckDepth depth) {
    auto check = CheckModel(dir_, depth, {});
    EXPECT_TRUE(check.ok()) << check.status();
    return check.ok() ? *std::move(check) : ModelCheck();
  }

  const TempDir folder_;
  const std::string dir_ = folder_.File("model");
};

TEST_F(ModelInstallerTest, HasTheIdentityOfTheReleasedFiles) {
  ASSERT_TRUE(
      Install(dir_, NanoOrigin(InstallOrigin::Experts::kOnDemand)).ok());
  const auto installed = ManifestOfDirectory(dir_, "", {});
  const auto released = ManifestOfDirectory(kNano, "", {});
  ASSERT_TRUE(installed.ok() && released.ok());
  EXPECT_EQ(installed->Text(), released->Text());
  EXPECT_EQ(installed->Digest(), released->Digest());
}

TEST_F(ModelInstallerTest, SpineTensorsAreTheReleasedBytes) {
  ASSERT_TRUE(
      Install(dir_, NanoOrigin(InstallOrigin::Experts::kOnDemand)).ok());
  const auto spec = ModelSpec::Load(dir_);
  const auto installed = Checkpoint::Open(dir_);
  const auto released = Checkpoint::Open(kNano);
  ASSERT_TRUE(spec.ok() && installed.ok() && released.ok());
  EXPECT_FALSE((*installed)->has_experts());
  ASSERT_TRUE(ValidateCheckpoint(*spec, **installed).ok());
  std::vector<TensorSpec> tensors = GlobalTensors(*spec);
  for (const TensorSpec& tensor : LayerTensors(*spec, 3)) {
    tensors.push_back(tensor);
  }
  for (const TensorSpec& tensor : tensors) {
    std::vector<uint8_t> here(tensor.bytes());
    std::vector<uint8_t> there(tensor.bytes());
    ASSERT_TRUE((*installed)
                    ->ReadTensor(tensor.name, tensor.dtype, tensor.shape, here)
                    .ok());
    ASSERT_TRUE((*released)
                    ->ReadTensor(tensor.name, tensor.dtype, tensor.shape, there)
                    .ok());
    EXPECT_EQ(here, there) << tensor.name;
  }
}

TEST_F(ModelInstallerTest, ExpertsAreTheReleasedOnesInTiles) {
  ASSERT_TRUE(InstallAll().ok());
  const auto spec = ModelSpec::Load(dir_);
  const auto manifest = ManifestOfDirectory(dir_, "", {});
  const auto installed =
      InstalledExperts::Open(dir_, *spec, manifest->Digest(), {});
  const auto released = LocalStore::Open(kNano, *spec);
  ASSERT_TRUE(installed.ok() && released.ok()) << installed.status();
  const ExpertShape shape = spec->expert_shape();
  for (const ExpertKey key : {ExpertKey{1, 0}, {5, 63}, {12, 17}}) {
    std::vector<uint8_t> here(shape.payload_bytes());
    std::vector<uint8_t> there(shape.payload_bytes());
    uint8_t* const out[] = {here.data()};
    uint8_t* const expected[] = {there.data()};
    ASSERT_EQ(shape.num_slices(), 1);
    ASSERT_TRUE((*installed)->Read(key, {0, 1}, out, [](int) {}).ok());
    ASSERT_TRUE((*released)->Read(key, {0, 1}, expected, [](int) {}).ok());
    EXPECT_EQ(here, there);
  }
  const ModelCheck check = Check(CheckDepth::kDeep);
  EXPECT_EQ(check.experts_held, check.experts_total);
  EXPECT_TRUE(check.findings.empty());
  EXPECT_EQ(check.command, "");
}

TEST_F(ModelInstallerTest, CancelledAnywhereItGoesOnWhereItWas) {
  std::atomic<int> asked = 0;
  int limit = 0;
  InstallOptions options;
  options.parallel = 2;
  options.cancelled = [&] { return ++asked > limit; };
  absl::Status status;
  int starts = 0;
  do {
    asked = 0;
    limit += 97;
    status = InstallAll(options);
    ++starts;
    ASSERT_TRUE(status.ok() || absl::IsCancelled(status)) << status;
    ASSERT_LT(starts, 200);
  } while (!status.ok());
  EXPECT_GT(starts, 3);
  EXPECT_TRUE(Check(CheckDepth::kDeep).findings.empty());
}

TEST_F(ModelInstallerTest, DamagedFilesAreFetchedAgain) {
  ASSERT_TRUE(
      Install(dir_, NanoOrigin(InstallOrigin::Experts::kOnDemand)).ok());
  std::ofstream(dir_ + "/tiktoken.model") << "x";
  fs::remove(dir_ + "/spine/model-00002-of-000014.safetensors");
  EXPECT_EQ(Check(CheckDepth::kShallow).findings.size(), 2u);
  ASSERT_TRUE(
      Install(dir_, NanoOrigin(InstallOrigin::Experts::kOnDemand)).ok());
  EXPECT_TRUE(Check(CheckDepth::kDeep).findings.empty());
}

TEST_F(ModelInstallerTest, NotEnoughRoomIsToldBeforeTheFolderIsMade) {
  absl::StatusOr<OpenedSource> source =
      OpenOrigin(NanoOrigin(InstallOrigin::Experts::kAll), {});
  ASSERT_TRUE(source.ok());
  InstallOptions options;
  options.reserve_bytes = uint64_t{1} << 60;
  const absl::Status status =
      ModelInstaller::Prepare(dir_, *std::move(source), options).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("bytes to come"));
  EXPECT_FALSE(fs::exists(dir_));
}

TEST(SpineSourceTest, AnyRangeIsThatOfTheWholeFile) {
  const TempDir folder;
  const std::string dir = folder.File("model");
  ASSERT_TRUE(Install(dir, NanoOrigin(InstallOrigin::Experts::kOnDemand)).ok());
  const auto manifest = ManifestOfDirectory(dir, "", {});
  const auto table = ShardTable::Load(InstalledPaths(dir), *manifest);
  const auto released = DirectorySource::Open(kNano);
  ASSERT_TRUE(table.ok() && released.ok());
  const auto spine = SpineSource::Create(**released, **table);
  ASSERT_TRUE(spine.ok()) << spine.status();
  const SourceFile file = (*spine)->files()[2];
  std::vector<uint8_t> whole(file.bytes);
  ASSERT_TRUE((*spine)->Read(file.name, 0, whole).ok());
  for (uint64_t at = 0; at < file.bytes; at += 70'001) {
    std::vector<uint8_t> piece(std::min<uint64_t>(9'999, file.bytes - at));
    ASSERT_TRUE((*spine)->Read(file.name, at, piece).ok());
    EXPECT_TRUE(std::equal(piece.begin(), piece.end(), whole.begin() + at));
  }
  std::vector<uint8_t> beyond(2);
  EXPECT_FALSE((*spine)->Read(file.name, file.bytes - 1, beyond).ok());
  EXPECT_FALSE((*spine)->Read("other", 0, beyond).ok());
}

TEST(KnownReleaseTest, OnlyTheReleasedFilesPass) {
  const std::string config =
      "9710e121a58d03ac92c8d6da287a19541994319afbbe6d6202af001ffd379213";
  EXPECT_TRUE(IsKimiK3Config(7006, config));
  EXPECT_FALSE(IsKimiK3Config(7005, config));
  EXPECT_FALSE(IsKimiK3Config(7006, std::string(64, '0')));
  EXPECT_TRUE(IsKnownRelease("moonshotai/Kimi-K3",
                             "9f62e4e9fffbd0a83ddd60e1c209d828994b3569"));
  EXPECT_FALSE(IsKnownRelease("moonshotai/Kimi-K3", "main"));
  EXPECT_FALSE(IsKnownRelease("someone/Kimi-K3",
                              "9f62e4e9fffbd0a83ddd60e1c209d828994b3569"));
  EXPECT_TRUE(CheckKnownFile("README.md", 1, config).ok());
  const absl::Status other =
      CheckKnownFile("tiktoken.model", 2'795'286, config);
  EXPECT_TRUE(absl::IsDataLoss(other));
  EXPECT_THAT(std::string(other.message()), HasSubstr("b6c497a7469b33ce"));
}

TEST(InstallOriginTest, TextIsReadBack) {
  InstallOrigin origin;
  origin.revision = {"a/b", "0123456789abcdef0123456789abcdef01234567"};
  origin.experts = InstallOrigin::Experts::kOnDemand;
  const auto parsed = InstallOrigin::Parse(origin.Text());
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->Text(), origin.Text());
  EXPECT_FALSE(InstallOrigin::Parse("directory /x\n").ok());
  EXPECT_FALSE(InstallOrigin::Parse("directory \nexperts all\n").ok());
  EXPECT_FALSE(InstallOrigin::Parse("cloud x\nexperts all\n").ok());
}

}  // namespace
}  // namespace deltafin
