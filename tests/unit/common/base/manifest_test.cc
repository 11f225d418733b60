#include "common/base/manifest.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "common/base/digest.h"
#include "common/base/file_io.h"
#include "gtest/gtest.h"
#include "tests/testing/synthetic_config.h"
#include "tests/testing/synthetic_model.h"
#include "tests/testing/temp_dir.h"

namespace deltafin {
namespace {

class ManifestTest : public testing::Test {
 protected:
  void SetUp() override {
    SyntheticModelOptions options;
    options.spec = TinySpec(2, 4);
    ASSERT_TRUE(MakeSyntheticModel(options, model()).ok());
  }
  std::string model() const { return dir_.File("model"); }
  std::string cache() const { return dir_.File("digests"); }
  Manifest Read() {
    const auto manifest = ManifestOfDirectory(model(), cache(), {});
    EXPECT_TRUE(manifest.ok()) << manifest.status();
    return manifest.ok() ? *manifest : Manifest{};
  }

  TempDir dir_;
};

TEST_F(ManifestTest, ListsConfigIndexAndShardsSorted) {
  const Manifest manifest = Read();
  ASSERT_EQ(manifest.entries.size(), 5u);
  EXPECT_EQ(manifest.entries[0].file, "config.json");
  EXPECT_EQ(manifest.entries[1].file, "model-00001-of-000003.safetensors");
  EXPECT_EQ(manifest.entries[4].file, "model.safetensors.index.json");
  for (const ManifestEntry& entry : manifest.entries) {
    const auto contents = ReadFile(model() + "/" + entry.file, 1 << 24);
    ASSERT_TRUE(contents.ok());
    EXPECT_EQ(entry.bytes, contents->size());
    EXPECT_EQ(entry.sha256,
              Sha256Hex({reinterpret_cast<const uint8_t*>(contents->data()),
                         contents->size()}));
  }
}

TEST_F(ManifestTest, DigestCoversEveryEntry) {
  Manifest manifest;
  manifest.entries = {{"a", 1, std::string(64, '0')}};
  const std::string text = "a 1 " + std::string(64, '0') + "\n";
  EXPECT_EQ(
      manifest.Digest(),
      Sha256Hex({reinterpret_cast<const uint8_t*>(text.data()), text.size()}));
}

TEST_F(ManifestTest, UsesTheCacheForUnchangedFiles) {
  const Manifest first = Read();
  // A made-up digest in the cache shows that the file was not read again.
  std::string text = *ReadFile(cache(), 1 << 20);
  const std::string& real = first.entries[0].sha256;
  text.replace(text.find(real), real.size(), std::string(64, 'a'));
  ASSERT_TRUE(WriteFileAtomically(cache(), text).ok());
  EXPECT_EQ(Read().entries[0].sha256, std::string(64, 'a'));
}

TEST_F(ManifestTest, HashesChangedFilesAgain) {
  const Manifest first = Read();
  std::ofstream(model() + "/config.json", std::ios::app) << "\n";
  const Manifest second = Read();
  EXPECT_NE(second.entries[0].sha256, first.entries[0].sha256);
  EXPECT_EQ(second.entries[1].sha256, first.entries[1].sha256);
  EXPECT_NE(second.Digest(), first.Digest());
}

TEST_F(ManifestTest, IsTheSameWithoutACache) {
  const auto manifest = ManifestOfDirectory(model(), "", {});
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(manifest->Digest(), Read().Digest());
}

TEST_F(ManifestTest, SurvivesABadCache) {
  const Manifest first = Read();
  ASSERT_TRUE(WriteFileAtomically(cache(), "not a cache\n\xff\xfe 1 2\n").ok());
  EXPECT_EQ(Read().Digest(), first.Digest());
  const auto unwritable =
      ManifestOfDirectory(model(), "/nowhere/at/all/digests", {});
  ASSERT_TRUE(unwritable.ok());
  EXPECT_EQ(unwritable->Digest(), first.Digest());
}

TEST_F(ManifestTest, ReportsProgressUpToTheTotal) {
  uint64_t last = 0;
  uint64_t all = 0;
  const auto manifest =
      ManifestOfDirectory(model(), "", [&](uint64_t done, uint64_t total) {
        EXPECT_GE(done, last);
        last = done;
        all = total;
      });
  ASSERT_TRUE(manifest.ok());
  EXPECT_GT(all, 0u);
  EXPECT_EQ(last, all);
}

TEST_F(ManifestTest, NamesTheMissingFile) {
  std::filesystem::remove(model() + "/config.json");
  const absl::Status status =
      ManifestOfDirectory(model(), cache(), {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(status.message().find("config.json"), absl::string_view::npos);
}

}  // namespace
}  // namespace deltafin
