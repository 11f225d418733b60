#include "expert_node/model_files_client.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/digest.h"
#include "common/base/file_io.h"
#include "common/base/model_directory.h"
#include "common/base/status_macros.h"
#include "common/net/grpc_status.h"
#include "common/net/keepalive.h"
#include "expert_node/storage/shard_table.h"
#include "proto/cluster.grpc.pb.h"

namespace deltafin {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxManifestBytes = uint64_t{64} << 20;
constexpr uint64_t kMaxFileBytes = uint64_t{1} << 30;
// One attempt to connect may take this long; gRPC takes the time from the
// argument named MIN_RECONNECT_BACKOFF.
constexpr int kConnectAttemptMs = 10'000;
constexpr std::string_view kManifest = "manifest";
constexpr std::string_view kConfig = "config.json";
constexpr std::string_view kIndex = "model.safetensors.index.json";
constexpr std::string_view kHeaderPrefix = "headers/";
constexpr std::string_view kHeaderSuffix = ".header";
constexpr std::string_view kShardSuffix = ".safetensors";

std::span<const uint8_t> BytesOf(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// Names become paths: a plain one has no folder in it.
bool IsPlainName(std::string_view name) {
  return !name.empty() && name.find('/') == std::string_view::npos &&
         name[0] != '.';
}

absl::Status CheckManifest(const Manifest& manifest) {
  for (const ManifestEntry& entry : manifest.entries) {
    if (IsPlainName(entry.file)) continue;
    return absl::DataLossError(fmt::format(
        "the manifest names '{:.64}', no file of a model", entry.file));
  }
  return absl::OkStatus();
}

const ManifestEntry* EntryOf(const Manifest& manifest, std::string_view file) {
  const auto found =
      std::ranges::find(manifest.entries, file, &ManifestEntry::file);
  return found == manifest.entries.end() ? nullptr : &*found;
}

// Receives one coordinator's files into a folder.
class Receiver {
 public:
  explicit Receiver(const ModelFilesOptions& options)
      : options_(options), paths_(options.folder) {}

  // Errors: those of FetchModelFiles. REQUIRES: pieces come in order.
  absl::Status Take(const v1::ModelFilePiece& piece) {
    if (contents_.empty()) {
      RETURN_IF_ERROR(Begin(piece));
    } else if (piece.name() != name_) {
      return absl::DataLossError(name_ + " ended early");
    }
    if (piece.data().size() > file_bytes_ - contents_.size() ||
        piece.data().empty()) {
      return absl::DataLossError(name_ + " is not as long as it said");
    }
    contents_ += piece.data();
    if (contents_.size() < file_bytes_) return absl::OkStatus();
    const std::string contents = std::exchange(contents_, std::string());
    return AddContext(Keep(contents), name_);
  }

  // The folder has all of it already.
  bool is_complete() const { return is_complete_; }

  absl::Status Finish() {
    if (is_complete_) return absl::OkStatus();
    if (!manifest_ || !contents_.empty()) {
      return absl::DataLossError("the files ended early");
    }
    RETURN_IF_ERROR(WriteFileAtomically(paths_.manifest(), manifest_->Text()));
    return KnownModel(options_.folder, options_.with_shards).status();
  }

 private:
  absl::Status Begin(const v1::ModelFilePiece& piece) {
    name_ = piece.name().substr(0, 256);
    file_bytes_ = piece.file_bytes();
    const uint64_t most = manifest_ ? kMaxFileBytes : kMaxManifestBytes;
    if (file_bytes_ == 0 || file_bytes_ > most) {
      return absl::DataLossError(fmt::format(
          "{} of {} bytes, at most {} are taken", name_, file_bytes_, most));
    }
    if ((name_ == kManifest) == !manifest_) return absl::OkStatus();
    return absl::DataLossError(name_ + " came out of order");
  }

  absl::Status Keep(const std::string& contents) {
    if (!manifest_) return KeepManifest(contents);
    if (name_.starts_with(kHeaderPrefix)) return KeepHeader(contents);
    const ManifestEntry* entry = EntryOf(*manifest_, name_);
    if (entry == nullptr || (name_ != kConfig && name_ != kIndex)) {
      return absl::DataLossError("not a file that a node needs");
    }
    const std::string sha256 = Sha256Hex(BytesOf(contents));
    if (sha256 != entry->sha256 || contents.size() != entry->bytes) {
      return absl::DataLossError(
          fmt::format("{} bytes with SHA-256 {}, the manifest says {} with {}",
                      contents.size(), sha256, entry->bytes, entry->sha256));
    }
    return WriteFileAtomically(options_.folder + "/" + name_, contents);
  }

  absl::Status KeepManifest(const std::string& contents) {
    ASSIGN_OR_RETURN(Manifest manifest, Manifest::Parse(contents));
    RETURN_IF_ERROR(CheckManifest(manifest));
    const absl::StatusOr<Manifest> known =
        KnownModel(options_.folder, options_.with_shards);
    const absl::StatusOr<Manifest> begun =
        KnownModel(options_.folder, /*with_shards=*/false);
    if (begun.ok() && begun->Digest() != manifest.Digest()) {
      return absl::FailedPreconditionError(fmt::format(
          "{} is of the model with the manifest digest {}, the coordinator "
          "serves {}; give the node another --data folder, or delete this one",
          options_.folder, begun->Digest(), manifest.Digest()));
    }
    is_complete_ = known.ok();
    manifest_ = std::move(manifest);
    return absl::OkStatus();
  }

  absl::Status KeepHeader(const std::string& contents) {
    std::string_view shard = name_;
    shard.remove_prefix(kHeaderPrefix.size());
    if (!shard.ends_with(kHeaderSuffix)) {
      return absl::DataLossError("not a header");
    }
    shard.remove_suffix(kHeaderSuffix.size());
    const ManifestEntry* entry = EntryOf(*manifest_, shard);
    if (entry == nullptr) return absl::DataLossError("of no shard");
    RETURN_IF_ERROR(
        ParseShardHeader(entry->file, entry->bytes, contents).status());
    return WriteFileAtomically(paths_.header(entry->file), contents);
  }

  const ModelFilesOptions& options_;
  const InstalledPaths paths_;
  std::optional<Manifest> manifest_;
  bool is_complete_ = false;
  std::string name_;  // of the file that comes
  uint64_t file_bytes_ = 0;
  std::string contents_;
};

absl::Status MakeFolders(const InstalledPaths& paths) {
  std::error_code error;
  fs::create_directories(paths.header_folder(), error);
  if (!error) return absl::OkStatus();
  return ErrnoStatus(error.value(), "make", paths.header_folder());
}

}  // namespace

absl::Status FetchModelFiles(const ModelFilesOptions& options) {
  RETURN_IF_ERROR(MakeFolders(InstalledPaths(options.folder)));
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectAttemptMs);
  const Keepalive keepalive = KeepaliveWithin(kDefaultKeepaliveBound);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS,
                   static_cast<int>(absl::ToInt64Milliseconds(keepalive.time)));
  arguments.SetInt(
      GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
      static_cast<int>(absl::ToInt64Milliseconds(keepalive.timeout)));
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  const auto stub = v1::ClusterService::NewStub(
      options.credentials.Connect(options.coordinator, arguments));
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + options.timeout));
  v1::GetModelFilesRequest request;
  request.set_with_shards(options.with_shards);
  const auto reader = stub->GetModelFiles(&context, request);
  Receiver receiver(options);
  v1::ModelFilePiece piece;
  absl::Status taken;
  while (taken.ok() && !receiver.is_complete() && reader->Read(&piece)) {
    taken = receiver.Take(piece);
  }
  if (!taken.ok() || receiver.is_complete()) context.TryCancel();
  const absl::Status ended = ExplainConnection(FromGrpc(reader->Finish()));
  RETURN_IF_ERROR(taken);
  if (!receiver.is_complete()) RETURN_IF_ERROR(ended);
  return receiver.Finish();
}

absl::StatusOr<Manifest> KnownModel(const std::string& folder,
                                    bool with_shards) {
  const InstalledPaths paths(folder);
  ASSIGN_OR_RETURN(const std::string text,
                   ReadFile(paths.manifest(), kMaxManifestBytes));
  absl::StatusOr<Manifest> manifest = Manifest::Parse(text);
  if (!manifest.ok()) return AddContext(manifest.status(), paths.manifest());
  std::vector<std::string> needed = {folder + "/" + std::string(kConfig)};
  if (with_shards) needed.push_back(paths.index());
  for (const ManifestEntry& entry : manifest->entries) {
    if (with_shards && entry.file.ends_with(kShardSuffix)) {
      needed.push_back(paths.header(entry.file));
    }
  }
  std::error_code error;
  for (const std::string& path : needed) {
    if (!fs::exists(path, error)) {
      return absl::NotFoundError(path + " is missing");
    }
  }
  return manifest;
}

}  // namespace deltafin
