#include "expert_node/storage/share_store.h"

#include <utility>

#include "common/base/log.h"
#include "common/base/status_macros.h"

namespace deltafin {
namespace {

uint64_t MaskOf(SliceRun run) {
  return ((uint64_t{2} << (run.count - 1)) - 1) << run.first;
}

}  // namespace

// Drive, then what is staged.
class ShareStore::Held : public ExpertStore {
 public:
  Held(RecordStore& records, StagedSource* source)
      : records_(records), source_(source) {}

  const ExpertShape& shape() const override { return records_.shape(); }
  bool IsNear(ExpertKey key, SliceRun run) const override {
    return (MaskOf(run) & ~HeldMask(key)) == 0;
  }
  uint64_t HeldMask(ExpertKey key) const override {
    const uint64_t on_drive = records_.HeldMask(key);
    return source_ == nullptr ? on_drive : on_drive | source_->HeldMask(key);
  }
  uint64_t held_version() const override {
    const uint64_t drive = records_.held_version();
    return source_ == nullptr ? drive : drive + source_->held_version();
  }
  int slices_per_read() const override { return records_.slices_per_read(); }
  absl::StatusOr<uint64_t> Read(
      ExpertKey key, SliceRun run, std::span<uint8_t* const> out,
      absl::FunctionRef<void(int slice)> ready) override {
    if (source_ == nullptr || records_.Holds(key, run)) {
      return records_.Read(key, run, out, ready);
    }
    if (source_->IsNear(key, run)) {
      return source_->held().Read(key, run, out, ready);
    }
    return ReadMixed(key, run, out, ready);
  }

 private:
  // Some of it here, some there.
  absl::StatusOr<uint64_t> ReadMixed(ExpertKey key, SliceRun run,
                                     std::span<uint8_t* const> out,
                                     absl::FunctionRef<void(int slice)> ready) {
    if (!IsNear(key, run)) {
      return absl::NotFoundError(
          fmt::format("layer {} expert {} slices {}+{} are not here", key.layer,
                      key.expert, run.first, run.count));
    }
    uint64_t bytes = 0;
    for (int i = 0; i < run.count; ++i) {
      const SliceRun one = {run.first + i, 1};
      ExpertStore& from = records_.Holds(key, one) ? records_ : source_->held();
      ASSIGN_OR_RETURN(const uint64_t read,
                       from.Read(key, one, out.subspan(i, 1), ready));
      bytes += read;
    }
    return bytes;
  }

  RecordStore& records_;
  StagedSource* const source_;
};

// Where a slice comes from that the drive lacks.
class ShareStore::PeersThenSource : public ExpertStore {
 public:
  PeersThenSource(PeerStore& peers, StagedSource* source)
      : peers_(peers), source_(source) {}

  const ExpertShape& shape() const override { return peers_.shape(); }
  bool IsNear(ExpertKey, SliceRun) const override { return false; }
  absl::StatusOr<uint64_t> Read(
      ExpertKey key, SliceRun run, std::span<uint8_t* const> out,
      absl::FunctionRef<void(int slice)> ready) override {
    if (source_ != nullptr && source_->IsNear(key, run)) {
      return source_->Read(key, run, out, ready);
    }
    int done = 0;  // peers give slices in ascending order
    const absl::StatusOr<uint64_t> from_peers =
        peers_.Read(key, run, out, [&done, &ready](int slice) {
          ++done;
          ready(slice);
        });
    if (from_peers.ok() || source_ == nullptr) return from_peers;
    return source_->Read(key, {run.first + done, run.count - done},
                         out.subspan(done), ready);
  }

 private:
  PeerStore& peers_;
  StagedSource* const source_;
};

absl::StatusOr<std::unique_ptr<ShareStore>> ShareStore::Open(
    const RecordModel& model, const ShareStoreOptions& options,
    SlicePeers& peers, std::unique_ptr<ExpertStore> source) {
  ASSIGN_OR_RETURN(std::unique_ptr<RecordStore> records,
                   RecordStore::Open(options.folder, model, options.records));
  return std::unique_ptr<ShareStore>(
      new ShareStore(std::move(records), options, peers, std::move(source)));
}

ShareStore::ShareStore(std::unique_ptr<RecordStore> records,
                       const ShareStoreOptions& options, SlicePeers& peers,
                       std::unique_ptr<ExpertStore> source)
    : records_(std::move(records)),
      source_(source == nullptr
                  ? nullptr
                  : std::make_unique<StagedSource>(std::move(source),
                                                   options.staging_bytes)),
      held_(std::make_unique<Held>(*records_, source_.get())),
      peers_(records_->shape(), peers),
      fetching_(std::make_unique<FetchingStore>(
          *records_, std::make_unique<PeersThenSource>(peers_, source_.get()),
          options.fetching)) {}

ShareStore::~ShareStore() = default;

uint64_t ShareStore::HeldMask(ExpertKey key) const {
  return held_->HeldMask(key);
}

uint64_t ShareStore::held_version() const { return held_->held_version(); }

absl::StatusOr<uint64_t> ShareStore::Copy(ExpertKey key, SliceRun run,
                                          std::span<const std::string> owners,
                                          uint64_t copy_budget) {
  RETURN_IF_ERROR(records_->CheckName(key, run));
  const auto from_peers = [&](SliceRun missing, std::span<uint8_t* const> out) {
    return peers_.ReadFrom({owners, copy_budget}, key, missing, out,
                           [](int) {});
  };
  const auto from_source = [&](SliceRun missing,
                               std::span<uint8_t* const> out) {
    return source_->Read(key, missing, out, [](int) {});
  };
  if (source_ == nullptr) return fetching_->Fill(key, run, from_peers);
  return fetching_->Fill(key, run, from_peers, from_source);
}

}  // namespace deltafin
