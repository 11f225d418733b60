#include "expert_node/model_files_client.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "common/base/file_io.h"
#include "common/base/model_directory.h"
#include "common/base/model_spec.h"
#include "common/net/grpc_status.h"
#include "common/net/server_lifecycle.h"
#include "coordinator/cluster/model_files.h"
#include "expert_node/share_membership.h"
#include "expert_node/storage/shard_table.h"
#include "proto/cluster.grpc.pb.h"
#include "tests/testing/process.h"
#include "tests/testing/temp_dir.h"

namespace deltafin {
namespace {

using ::testing::HasSubstr;
using testing::NanoModelDir;

namespace fs = std::filesystem;

// Gives the files of k3-nano, changed on their way as a test likes.
class FakeCluster final : public v1::ClusterService::Service {
 public:
  using Change = std::function<void(v1::ModelFilePiece&)>;

  explicit FakeCluster(const Manifest& manifest)
      : files_(NanoModelDir(), manifest) {}

  grpc::Status GetModelFiles(
      grpc::ServerContext*, const v1::GetModelFilesRequest* request,
      grpc::ServerWriter<v1::ModelFilePiece>* writer) override {
    num_pieces = 0;
    return ToGrpc(files_.Send(request->with_shards(),
                              [&](const v1::ModelFilePiece& piece) {
                                v1::ModelFilePiece changed = piece;
                                if (change) change(changed);
                                ++num_pieces;
                                return writer->Write(changed);
                              }));
  }

  Change change;
  int num_pieces = 0;

 private:
  const ModelFiles files_;
};

class ModelFilesClientTest : public ::testing::Test {
 protected:
  ModelFilesClientTest() {
    grpc::Service* const services[] = {&cluster_};
    auto server = ServerLifecycle::Start({"127.0.0.1:0"}, services);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  static Manifest NanoManifest() {
    static const absl::StatusOr<Manifest> manifest =
        ManifestOfDirectory(NanoModelDir(), "", {});
    return manifest.value();
  }
  absl::Status Fetch(bool with_shards = false) {
    ModelFilesOptions options;
    options.coordinator = server_->address();
    options.folder = folder();
    options.with_shards = with_shards;
    return FetchModelFiles(options);
  }
  std::string folder() const { return dir_.File("model"); }

  const TempDir dir_;
  FakeCluster cluster_{NanoManifest()};
  std::unique_ptr<ServerLifecycle> server_;
};

TEST_F(ModelFilesClientTest, BringsConfigAndManifestAlone) {
  ASSERT_TRUE(Fetch().ok());
  const auto known = KnownModel(folder(), false);
  ASSERT_TRUE(known.ok()) << known.status();
  EXPECT_EQ(known->Digest(), NanoManifest().Digest());
  const auto spec = ModelSpec::Load(folder());
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->num_experts, 64);
  EXPECT_FALSE(fs::exists(InstalledPaths(folder()).index()));
  EXPECT_TRUE(absl::IsNotFound(KnownModel(folder(), true).status()));
}

TEST_F(ModelFilesClientTest, WithShardsItFindsEveryExpert) {
  ASSERT_TRUE(Fetch().ok());
  ASSERT_TRUE(Fetch(/*with_shards=*/true).ok());
  const auto known = KnownModel(folder(), true);
  ASSERT_TRUE(known.ok()) << known.status();
  const auto table = ShardTable::Load(InstalledPaths(folder()), *known);
  ASSERT_TRUE(table.ok()) << table.status();
  const ModelSpec spec = ModelSpec::Load(folder()).value();
  for (const TensorSpec& tensor : ExpertTensors(spec, {5, 63})) {
    EXPECT_TRUE((*table)->Find(tensor).ok()) << tensor.name;
  }
}

TEST_F(ModelFilesClientTest, WhatIsThereIsNotSentAgain) {
  ASSERT_TRUE(Fetch().ok());
  const auto before = fs::last_write_time(InstalledPaths(folder()).manifest());
  ASSERT_TRUE(Fetch().ok());
  EXPECT_EQ(fs::last_write_time(InstalledPaths(folder()).manifest()), before);
}

TEST_F(ModelFilesClientTest, RefusesAFolderOfAnotherModel) {
  ASSERT_TRUE(Fetch().ok());
  Manifest other = NanoManifest();
  other.entries[0].sha256 = std::string(64, '0');
  ASSERT_TRUE(
      WriteFileAtomically(InstalledPaths(folder()).manifest(), other.Text())
          .ok());
  const absl::Status status = Fetch();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(other.Digest()));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(NanoManifest().Digest()));
}

TEST_F(ModelFilesClientTest, KeepsNothingThatIsNotWhatTheManifestSays) {
  const auto change_config =
      [](const std::function<void(v1::ModelFilePiece&)>& change) {
        return [change](v1::ModelFilePiece& piece) {
          if (piece.name() == "config.json") change(piece);
        };
      };
  const FakeCluster::Change changes[] = {
      change_config([](auto& piece) { (*piece.mutable_data())[10] ^= 1; }),
      change_config([](auto& piece) { piece.mutable_data()->pop_back(); }),
      change_config([](auto& piece) { piece.mutable_data()->push_back('x'); }),
      change_config([](auto& piece) { piece.clear_data(); }),
      change_config([](auto& piece) { piece.set_file_bytes(0); }),
      change_config([](auto& piece) { piece.set_file_bytes(~uint64_t{0}); }),
      change_config([](auto& piece) { piece.set_name("../config.json"); }),
      change_config([](auto& piece) { piece.set_name("/tmp/config.json"); }),
      change_config([](auto& piece) { piece.set_name("headers/x.header"); }),
      change_config([](auto& piece) { piece.set_name("manifest"); }),
      [](auto& piece) {
        if (piece.name() == "manifest") piece.set_name("config.json");
      },
      [](auto& piece) {
        if (piece.name() == "manifest") (*piece.mutable_data())[0] = '\n';
      },
  };
  for (size_t i = 0; i < std::size(changes); ++i) {
    cluster_.change = changes[i];
    const absl::Status status = Fetch();
    EXPECT_TRUE(absl::IsDataLoss(status)) << "change " << i << ": " << status;
    EXPECT_FALSE(fs::exists(InstalledPaths(folder()).manifest())) << i;
    EXPECT_FALSE(fs::exists(dir_.File("config.json"))) << i;
  }
  cluster_.change = nullptr;
  EXPECT_TRUE(Fetch().ok());
}

TEST_F(ModelFilesClientTest, AManifestNamesNoFileElsewhere) {
  Manifest manifest = NanoManifest();
  manifest.entries.push_back({"../../etc/x", 1, std::string(64, '0')});
  cluster_.change = [&manifest](v1::ModelFilePiece& piece) {
    if (piece.name() != "manifest") return;
    piece.set_data(manifest.Text());
    piece.set_file_bytes(piece.data().size());
  };
  EXPECT_TRUE(absl::IsDataLoss(Fetch()));
}

v1::ModelFilePiece Whole(const std::string& name, const std::string& data) {
  v1::ModelFilePiece piece;
  piece.set_name(name);
  piece.set_file_bytes(data.size());
  piece.set_data(data);
  return piece;
}

TEST_F(ModelFilesClientTest, WhatAnEarlierFetchLeftIsNoFileOfThisModel) {
  fs::create_directories(folder());
  ASSERT_TRUE(WriteFileAtomically(folder() + "/config.json", "{}").ok());
  ModelFilesReceiver receiver(folder(), /*with_shards=*/false);
  ASSERT_TRUE(receiver.Take(Whole("manifest", NanoManifest().Text())).ok());
  const absl::Status status = receiver.Finish();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("config.json"));
  EXPECT_FALSE(fs::exists(InstalledPaths(folder()).manifest()));
}

TEST_F(ModelFilesClientTest, EachFileComesOnce) {
  fs::create_directories(folder());
  const std::string config =
      *ReadFile(NanoModelDir() + "/config.json", 1 << 20);
  ModelFilesReceiver receiver(folder(), /*with_shards=*/false);
  ASSERT_TRUE(receiver.Take(Whole("manifest", NanoManifest().Text())).ok());
  ASSERT_TRUE(receiver.Take(Whole("config.json", config)).ok());
  EXPECT_TRUE(absl::IsDataLoss(receiver.Take(Whole("config.json", config))));
  EXPECT_TRUE(absl::IsDataLoss(
      receiver.Take(Whole("manifest", NanoManifest().Text()))));
}

TEST_F(ModelFilesClientTest, AManifestNamesNothingThatAPathWouldHide) {
  const std::string nul("shard\0.safetensors", 18);
  for (const std::string& name :
       {nul, std::string("a\x1b[2J.safetensors"), std::string("a\\b"),
        std::string(300, 'a'), std::string(".hidden")}) {
    ModelFilesReceiver receiver(folder(), /*with_shards=*/true);
    const std::string manifest = name + " 1 " + std::string(64, '0') + "\n";
    EXPECT_TRUE(absl::IsDataLoss(receiver.Take(Whole("manifest", manifest))))
        << name;
  }
}

TEST_F(ModelFilesClientTest, ANodeThatKnowsItsModelNeedsNoCoordinatorToStart) {
  NodeJoinOptions join;
  join.coordinator = server_->address();
  ExpertNodeOptions options;
  options.model_dir = folder();
  options.share.emplace();
  ASSERT_TRUE(LearnModel(join, &options).ok());
  EXPECT_EQ(options.manifest_digest, NanoManifest().Digest());
  server_.reset();
  options.manifest_digest.clear();
  const absl::Status status = LearnModel(join, &options);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(options.manifest_digest, NanoManifest().Digest());
}

TEST_F(ModelFilesClientTest, WithoutACoordinatorTheErrorSaysSo) {
  server_.reset();
  ModelFilesOptions options;
  options.coordinator = "127.0.0.1:1";
  options.folder = folder();
  EXPECT_TRUE(absl::IsUnavailable(FetchModelFiles(options)));
}

}  // namespace
}  // namespace deltafin
