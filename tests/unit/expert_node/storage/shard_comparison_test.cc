// Bytes that change on their way into an installation: found by the SHA-256 of
// the shard that they were of, and fetched again.
#include "expert_node/storage/shard_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "common/base/safetensors.h"
#include "common/base/tensor_names.h"
#include "expert_node/storage/directory_source.h"
#include "expert_node/storage/model_check.h"
#include "expert_node/storage/model_installer.h"
#include "tests/testing/model_copy.h"
#include "tests/testing/temp_dir.h"

namespace deltafin {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const std::string kNano =
    std::string(DELTAFIN_SOURCE_DIR) + "/deploy/models/k3-nano";
const std::string kShard = "model-00003-of-000014.safetensors";

// The released files, one byte of which arrives changed, some times.
class FlippingSource : public ModelSource {
 public:
  // Reads of the byte are right before `right` of them, then wrong `wrong`
  // times.
  FlippingSource(uint64_t offset, int right, int wrong)
      : offset_(offset), right_(right), wrong_(wrong) {
    auto files = DirectorySource::Open(kNano);
    EXPECT_TRUE(files.ok()) << files.status();
    files_ = *std::move(files);
  }
  const std::string& name() const override { return files_->name(); }
  const std::vector<SourceFile>& files() const override {
    return files_->files();
  }
  absl::Status Read(const std::string& file, uint64_t offset,
                    std::span<uint8_t> out) override {
    const absl::Status status = files_->Read(file, offset, out);
    if (file != kShard || offset_ < offset || offset_ - offset >= out.size()) {
      return status;
    }
    if (right_-- <= 0 && wrong_-- > 0) out[offset_ - offset] ^= 1;
    return status;
  }

 private:
  std::unique_ptr<DirectorySource> files_;
  const uint64_t offset_;
  std::atomic<int> right_;
  std::atomic<int> wrong_;
};

// Where the first tensor of that kind lies in the shard, and a bit further.
uint64_t OffsetIn(bool of_expert) {
  const auto shard = SafetensorsFile::Open(kNano + "/" + kShard);
  EXPECT_TRUE(shard.ok()) << shard.status();
  for (const auto& [name, info] : (*shard)->tensors()) {
    if (IsExpertTensor(name) == of_expert) return info.offset + 7;
  }
  ADD_FAILURE() << "no such tensor";
  return 0;
}

// Where the shard's header names its first tensor.
uint64_t OffsetOfName() {
  std::ifstream file(kNano + "/" + kShard);
  std::string begin(4096, ' ');
  file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  const size_t name = begin.find("language_model");
  EXPECT_NE(name, std::string::npos);
  return name;
}

class ShardComparisonTest : public ::testing::Test {
 protected:
  absl::Status Install(std::shared_ptr<ModelSource> source,
                       InstallOptions options = {}) {
    InstallOrigin origin;
    origin.directory = kNano;
    options.reserve_bytes = 0;
    auto installer = ModelInstaller::Prepare(
        dir_, {std::move(source), origin, [] {}}, std::move(options));
    if (!installer.ok()) return installer.status();
    return (*installer)->Run();
  }
  // Once it was read for the manifest.
  absl::Status InstallFlipped(bool of_expert, int times,
                              InstallOptions options = {}) {
    return Install(
        std::make_shared<FlippingSource>(OffsetIn(of_expert), 1, times),
        std::move(options));
  }
  absl::Status InstallWell(InstallOptions options = {}) {
    return InstallFlipped(true, 0, std::move(options));
  }

  ModelCheck DeepCheck() const {
    auto check = CheckModel(dir_, CheckDepth::kDeep, {});
    EXPECT_TRUE(check.ok()) << check.status();
    return check.ok() ? *std::move(check) : ModelCheck();
  }
  void ExpectWhole() const {
    const ModelCheck check = DeepCheck();
    EXPECT_THAT(check.findings, IsEmpty());
    EXPECT_EQ(check.experts_held, check.experts_total);
  }
  // Shards that an installation has compared.
  std::string Compared() const {
    std::ifstream file(dir_ + "/compared");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const TempDir folder_;
  const std::string dir_ = folder_.File("model");
};

TEST_F(ShardComparisonTest, AFlippedBitOfAnExpertIsFetchedAgain) {
  ASSERT_TRUE(InstallFlipped(/*of_expert=*/true, 1).ok());
  ExpectWhole();
}

TEST_F(ShardComparisonTest, AFlippedBitOfTheSpineIsFetchedAgain) {
  ASSERT_TRUE(InstallFlipped(/*of_expert=*/false, 1).ok());
  ExpectWhole();
}

TEST_F(ShardComparisonTest, WhatWasPackedFromAFlippedSpineGoesWithIt) {
  InstallOptions blind;
  blind.compare_shards = false;
  ASSERT_TRUE(InstallFlipped(/*of_expert=*/false, 1, blind).ok());
  EXPECT_THAT(DeepCheck().findings, SizeIs(1));
  const std::string packed = dir_ + "/deltafin-spine-int8";
  fs::create_directory(packed);
  std::ofstream(packed + "/layer-03.spine") << "made of wrong bytes";
  ASSERT_TRUE(InstallWell().ok());
  EXPECT_FALSE(fs::exists(packed));
  ExpectWhole();
}

TEST_F(ShardComparisonTest, WhatComesTwiceWrongIsRefusedAndNotKept) {
  const absl::Status status = InstallFlipped(/*of_expert=*/true, 2);
  ASSERT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(kShard), HasSubstr("came twice"),
                    HasSubstr(kNano), HasSubstr("SHA-256")));
  EXPECT_FALSE(RequireUsable(dir_).ok());
  ASSERT_TRUE(InstallWell().ok());
  ExpectWhole();
}

// Once the shard was read for the manifest. Byte 1 is of the header's length.
TEST_F(ShardComparisonTest, AHeaderThatDoesNotFitTheModelIsFetchedAgain) {
  for (const uint64_t offset : {OffsetOfName(), uint64_t{1}}) {
    SCOPED_TRACE(offset);
    fs::remove_all(dir_);
    ASSERT_TRUE(Install(std::make_shared<FlippingSource>(offset, 1, 1)).ok());
    ExpectWhole();
  }
}

TEST_F(ShardComparisonTest, AHeaderThatNeverFitsIsRefusedAndNotKept) {
  const absl::Status status =
      Install(std::make_shared<FlippingSource>(OffsetOfName(), 1, 2));
  ASSERT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(kNano), HasSubstr(kShard),
                    HasSubstr("holds no tensor language_model")));
  EXPECT_TRUE(fs::is_empty(dir_ + "/headers"));
  ASSERT_TRUE(InstallWell().ok());
  ExpectWhole();
}

TEST_F(ShardComparisonTest, NamesTheShardWithoutMendingIt) {
  InstallOptions blind;
  blind.compare_shards = false;
  ASSERT_TRUE(InstallFlipped(/*of_expert=*/true, 1, blind).ok());
  EXPECT_EQ(Compared(), "");
  const ModelCheck check = DeepCheck();
  ASSERT_THAT(check.findings, SizeIs(1));
  EXPECT_EQ(check.findings[0].path, kShard);
  EXPECT_THAT(check.command, HasSubstr("setup --resume --check"));
}

TEST_F(ShardComparisonTest, WhatWasComparedIsNotReadAgainBeforeItChanges) {
  int compared = 0;
  InstallOptions options;
  options.progress = [&](std::string_view step, uint64_t, uint64_t) {
    compared += step.starts_with("comparing") ? 1 : 0;
  };
  ASSERT_TRUE(InstallWell(options).ok());
  EXPECT_GT(std::exchange(compared, 0), 0);
  const std::string all = Compared();
  EXPECT_THAT(all, HasSubstr(kShard + "\n"));
  ASSERT_TRUE(InstallWell(options).ok());
  EXPECT_EQ(compared, 0);

  // The experts of one layer come anew: so do the shards that they are of.
  fs::remove(dir_ + "/experts/layer-05.experts");
  ASSERT_TRUE(InstallWell(options).ok());
  EXPECT_GT(std::exchange(compared, 0), 0);
  EXPECT_EQ(Compared(), all);

  options.check_experts = true;
  ASSERT_TRUE(InstallWell(options).ok());
  EXPECT_GT(compared, 0);
  ExpectWhole();
}

TEST_F(ShardComparisonTest, CallbacksEndIt) {
  ASSERT_TRUE(InstallWell().ok());
  const auto spec = ModelSpec::Load(dir_);
  const auto manifest = ManifestOfDirectory(dir_, "", {});
  ASSERT_TRUE(spec.ok() && manifest.ok());
  const InstalledPaths paths(dir_);
  ShardComparisonOptions options;
  options.threads = 3;
  std::vector<std::string> same;
  options.wanted = [](const std::string& shard) { return shard == kShard; };
  options.same = [&](const std::string& shard) {
    same.push_back(shard);
    return absl::OkStatus();
  };
  auto differences = CompareShards(*spec, paths, *manifest, options);
  ASSERT_TRUE(differences.ok()) << differences.status();
  EXPECT_THAT(*differences, IsEmpty());
  EXPECT_THAT(same, ElementsAre(kShard));

  options.advance = [](uint64_t) { return absl::CancelledError("enough"); };
  differences = CompareShards(*spec, paths, *manifest, options);
  EXPECT_TRUE(absl::IsCancelled(differences.status()));
  EXPECT_THAT(same, SizeIs(1));
}

}  // namespace
}  // namespace deltafin
