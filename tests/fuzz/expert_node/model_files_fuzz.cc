// Input: a byte of flags (1: with shards; 2: the folder begins with another
// model's files), then what a coordinator sends of its model: ModelFilePieces
// (tests/fuzz/pieces.h). Whatever comes, a node writes nothing but the files of
// a model into its folder, and counts as knowing the model only with all of
// them as the manifest says.

#include <google/protobuf/stubs/logging.h>

#include <filesystem>
#include <iterator>
#include <string>

#include "common/base/check.h"
#include "common/base/digest.h"
#include "common/base/file_io.h"
#include "expert_node/model_files_receiver.h"
#include "tests/fuzz/pieces.h"
#include "tests/testing/temp_dir.h"

using deltafin::Manifest;
using deltafin::ManifestEntry;

namespace {

namespace fs = std::filesystem;

const std::string kOtherModel = "config.json 2 " + std::string(64, '7') +
                                "\nother.txt 1 " + std::string(64, '8') + "\n";

void Write(const std::string& path, const std::string& text) {
  CHECK_OK(deltafin::WriteFileAtomically(path, text));
}

bool MayBeThere(const std::string& name) {
  return name == "headers" || name == "manifest" || name == "config.json" ||
         name == "model.safetensors.index.json" ||
         (name.starts_with("headers/") &&
          name.ends_with(".safetensors.header"));
}

void CheckFolder(const std::string& folder) {
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = fs::relative(entry.path(), folder).string();
    CHECK(MayBeThere(name), name);
    CHECK(entry.is_regular_file() == (name != "headers"), name);
  }
}

void CheckReleased(const std::string& folder, const Manifest& manifest,
                   const std::string& name) {
  const auto text = deltafin::ReadFile(folder + "/" + name, 1 << 20);
  CHECK_OK(text.status());
  const std::string sha256 = deltafin::Sha256Hex(
      {reinterpret_cast<const uint8_t*>(text->data()), text->size()});
  bool is_told = false;
  for (const ManifestEntry& entry : manifest.entries) {
    is_told |= entry.file == name && entry.sha256 == sha256 &&
               entry.bytes == text->size();
  }
  CHECK(is_told, name);
}

// What is wrong with bytes is no news here.
bool Silence() {
  google::protobuf::SetLogHandler(nullptr);
  return true;
}

absl::Status Receive(deltafin::ModelFilesReceiver& receiver,
                     std::span<const uint8_t> bytes) {
  while (!bytes.empty() && !receiver.is_complete()) {
    const auto piece = deltafin::TakePiece(bytes);
    deltafin::v1::ModelFilePiece message;
    if (!message.ParseFromArray(piece.data(), static_cast<int>(piece.size()))) {
      continue;
    }
    const absl::Status taken = receiver.Take(message);
    if (!taken.ok()) return taken;
  }
  return receiver.Finish();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static const bool silent = Silence();
  if (size == 0 || !silent) return 0;
  const bool with_shards = (bytes[0] & 1) != 0;
  const deltafin::TempDir dir;
  const std::string folder = dir.File("model");
  fs::create_directories(folder + "/headers");
  Write(dir.File("canary"), "alive");
  if ((bytes[0] & 2) != 0) {
    Write(folder + "/config.json", "{}");
    Write(folder + "/manifest", kOtherModel);
  }
  deltafin::ModelFilesReceiver receiver(folder, with_shards);
  const absl::Status status = Receive(receiver, {bytes + 1, size - 1});
  CHECK(status.ok() || !status.message().empty());
  CHECK(status.ok() || status.message().size() < 8192);
  CheckFolder(folder);
  CHECK(std::distance(fs::directory_iterator(dir.path()), {}) == 2);
  CHECK(*deltafin::ReadFile(dir.File("canary"), 100) == "alive");
  const auto known = deltafin::KnownModel(folder, with_shards);
  if (!status.ok()) return 0;
  CHECK_OK(known.status());
  if (known->Text() == kOtherModel) return 0;  // it was there
  CheckReleased(folder, *known, "config.json");
  if (with_shards)
    CheckReleased(folder, *known, "model.safetensors.index.json");
  return 0;
}
