#include "expert_node/storage/model_check.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "common/base/aligned_buffer.h"
#include "common/base/file_io.h"
#include "common/base/manifest.h"
#include "common/base/model_directory.h"
#include "common/base/status_macros.h"
#include "expert_node/storage/record_reader.h"
#include "expert_node/storage/released_identity.h"
#include "expert_node/storage/shard_comparison.h"

namespace deltafin {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxListBytes = uint64_t{64} << 20;

std::string TextOf(const absl::Status& status) {
  return std::string(status.message());
}

class ModelChecker {
 public:
  ModelChecker(const std::string& dir, CheckDepth depth,
               const std::function<void(uint64_t, uint64_t)>& progress)
      : paths_(dir), deep_(depth == CheckDepth::kDeep), progress_(progress) {}

  absl::StatusOr<ModelCheck> Run() {
    ASSIGN_OR_RETURN(const ModelLayout layout, LayoutOfModel(paths_.dir()));
    if (layout == ModelLayout::kReleased) {
      return absl::InvalidArgumentError(fmt::format(
          "{} is no installed model: it has no file 'format'", paths_.dir()));
    }
    CheckSource();
    CheckFiles();
    CheckExperts();
    NameCommand();
    return std::move(check_);
  }

 private:
  void CheckSource() {
    const absl::StatusOr<InstallOrigin> origin = ReadInstallOrigin(paths_);
    if (!origin.ok()) {
      resumable_ = false;
      return AddFile(paths_.source(), TextOf(origin.status()));
    }
    check_.source = origin->name();
    check_.experts = origin->experts;
  }

  void CheckFiles() {
    const absl::StatusOr<std::string> text =
        ReadFile(paths_.files(), kMaxListBytes);
    if (!text.ok()) {
      return AddFile(paths_.files(),
                     "is missing: the installation is not finished");
    }
    const absl::StatusOr<Manifest> files = Manifest::Parse(*text);
    if (!files.ok()) return AddFile(paths_.files(), TextOf(files.status()));
    for (const ManifestEntry& entry : files->entries) total_ += entry.bytes;
    for (const ManifestEntry& entry : files->entries) CheckFile(entry);
  }

  void CheckFile(const ManifestEntry& entry) {
    const std::string path = paths_.dir() + "/" + entry.file;
    std::error_code error;
    const uint64_t bytes = fs::file_size(path, error);
    if (error) return AddFile(path, "is missing");
    if (bytes != entry.bytes) {
      return AddFile(path,
                     fmt::format("has {} bytes, not {}", bytes, entry.bytes));
    }
    if (!deep_) return;
    const absl::StatusOr<std::string> sha256 =
        Sha256OfFile(path, [this](uint64_t n) { Advance(n); });
    if (!sha256.ok()) {
      AddFile(path, TextOf(sha256.status()));
    } else if (*sha256 != entry.sha256) {
      AddFile(path,
              fmt::format("has the SHA-256 {}, not {}", *sha256, entry.sha256));
    }
  }

  // Without config and manifest nothing can be told of experts; both are
  // among the findings then.
  void CheckExperts() {
    const absl::StatusOr<std::string> json =
        ReadFile(paths_.dir() + "/config.json", kMaxListBytes);
    const absl::StatusOr<Manifest> manifest =
        ManifestOfDirectory(paths_.dir(), "", {});
    if (!json.ok() || !manifest.ok()) return;
    const absl::StatusOr<ModelSpec> spec = ModelSpec::Parse(*json);
    if (!spec.ok()) return;
    absl::StatusOr<AlignedBuffer> record =
        AlignedBuffer::Allocate(spec->expert_shape().stride_bytes());
    if (!record.ok()) {
      return AddFile(paths_.experts_folder(), TextOf(record.status()));
    }
    record_ = *std::move(record);
    for (int layer = 0; layer < spec->num_hidden_layers; ++layer) {
      if (!spec->is_moe(layer)) continue;
      check_.experts_total += spec->num_experts;
      CheckLayer(
          {layer, spec->expert_shape(), spec->num_experts, manifest->Digest()});
    }
    // Where something is known to be damaged, its shards are no news.
    if (deep_ && check_.findings.empty()) CheckShards(*spec, *manifest);
  }

  // Shards whose experts are all here.
  void CheckShards(const ModelSpec& spec, const Manifest& manifest) {
    ShardComparisonOptions options;
    options.threads = static_cast<int>(std::thread::hardware_concurrency());
    options.advance = [this](uint64_t bytes) {
      Advance(bytes);
      return absl::OkStatus();
    };
    const auto differences = CompareShards(spec, paths_, manifest, options);
    if (!differences.ok()) {
      return AddFile(paths_.dir(), TextOf(differences.status()));
    }
    records_damaged_ = records_damaged_ || !differences->empty();
    for (const ShardDifference& difference : *differences) {
      AddFile(difference.shard, difference.problem);
    }
  }

  void CheckLayer(const RecordIndexHeader& header) {
    const std::string folder = paths_.experts_folder();
    const std::string path = RecordReader::IndexPath(folder, header.layer);
    absl::StatusOr<RecordReader> reader = RecordReader::Open(folder, header);
    if (!reader.ok() && !absl::IsNotFound(reader.status())) {
      records_damaged_ = true;
      return Add({path, TextOf(reader.status()), header.layer, {}, {}});
    }
    ModelFinding missing{path, "holds no whole", header.layer, {}, {}};
    for (int expert = 0; expert < header.num_experts; ++expert) {
      const bool held = reader.ok() && reader->HoldsAll(expert);
      check_.experts_held += held ? 1 : 0;
      if (!held) missing.experts.push_back(expert);
      if (reader.ok()) CheckExpert(*reader, header, expert);
    }
    if (!missing.experts.empty() &&
        check_.experts == InstallOrigin::Experts::kAll) {
      if (reader.ok()) AddDamagedEntries(*reader, path, header.layer);
      Add(std::move(missing));
    }
  }

  // Of no interest where other entries say the same.
  void AddDamagedEntries(const RecordReader& reader, const std::string& path,
                         int layer) {
    for (const uint64_t offset : reader.damaged()) {
      Add({path,
           fmt::format("is damaged at offset {}", offset),
           layer,
           {},
           {}});
    }
  }

  void CheckExpert(const RecordReader& reader, const RecordIndexHeader& header,
                   int expert) {
    const ExpertShape& shape = header.shape;
    ModelFinding damaged{
        RecordReader::DataPath(paths_.experts_folder(), header.layer),
        "",
        header.layer,
        {expert},
        {}};
    for (int slice = 0; slice < shape.num_slices(); ++slice) {
      if (!reader.Holds(expert, slice)) continue;
      const absl::Status status = CheckSlice(reader, shape, expert, slice);
      if (status.ok()) continue;
      damaged.slices.push_back(slice);
      damaged.problem = TextOf(status);
    }
    if (deep_ && damaged.slices.empty() && reader.HoldsAll(expert) &&
        reader.identity(expert).has_value() &&
        IdentityOfRecord(shape, record_.bytes()) !=
            Sha256HexOf(*reader.identity(expert))) {
      damaged.problem = "has not the SHA-256 of the released bytes";
    }
    if (damaged.problem.empty()) return;
    records_damaged_ = true;
    Add(std::move(damaged));
  }

  absl::Status CheckSlice(const RecordReader& reader, const ExpertShape& shape,
                          int expert, int slice) {
    const size_t begin = shape.slice_offset(slice);
    const size_t bytes = shape.slice_offset(slice + 1) - begin;
    if (!deep_) return reader.CheckThere(expert, slice);
    Advance(bytes);
    return reader.ReadSlice(expert, slice,
                            record_.bytes().subspan(begin, bytes));
  }

  void NameCommand() {
    if (check_.findings.empty()) return;
    if (!resumable_) {
      check_.command = fmt::format(
          "deltafin setup --full --model REPO@REV --dir {}", paths_.dir());
      return;
    }
    check_.command =
        fmt::format("deltafin setup --resume {}--dir {}",
                    records_damaged_ ? "--check " : "", paths_.dir());
  }

  void AddFile(const std::string& path, std::string problem) {
    Add({path, std::move(problem), -1, {}, {}});
  }
  void Add(ModelFinding finding) {
    check_.findings.push_back(std::move(finding));
  }
  void Advance(uint64_t bytes) {
    done_ += bytes;
    if (progress_) progress_(done_, std::max(done_, total_));
  }

  const InstalledPaths paths_;
  const bool deep_;
  const std::function<void(uint64_t, uint64_t)>& progress_;
  ModelCheck check_;
  AlignedBuffer record_;
  bool resumable_ = true;
  bool records_damaged_ = false;
  uint64_t done_ = 0;
  uint64_t total_ = 0;
};

}  // namespace

absl::StatusOr<ModelCheck> CheckModel(
    const std::string& dir, CheckDepth depth,
    const std::function<void(uint64_t, uint64_t)>& progress) {
  return ModelChecker(dir, depth, progress).Run();
}

}  // namespace deltafin
