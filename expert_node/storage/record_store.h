// expert_node/storage/record_store.h
//
// Experts on a node's drive in tile order (docs/expert_file.md): fixed records
// that the kernel takes as they are, an append-only index beside each layer's,
// every byte checked when it is read. Any run of slices is held alone.
// Thread-safe.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/folder_lock.h"
#include "common/base/model_spec.h"
#include "expert_node/storage/expert_store.h"

namespace deltafin {

class LayerRecords;
class ReadRateMeter;
class ThrottledDrive;
struct RecordShared;

// What a folder of records is of: another one is refused.
struct RecordModel {
  ExpertShape shape;
  int num_layers = 0;
  int first_moe_layer = 0;  // layers below have no routed experts
  int num_experts = 0;
  std::string manifest_digest;  // Manifest::Digest(): 64 hex digits

  static RecordModel Of(const ModelSpec& spec, std::string manifest_digest);
};

struct RecordStoreOptions {
  static constexpr uint64_t kNoQuota = std::numeric_limits<uint64_t>::max();

  // Bytes of slices that may be held. Changed by SetQuota.
  uint64_t quota_bytes = kNoQuota;
  // Bytes of the file system that are left to others.
  uint64_t reserve_bytes = uint64_t{1} << 30;
  // Reads of the drive at once, however many threads read: whoever has its
  // bytes checks them while the next read is under way.
  int reads_at_once = 4;
  // Who has the folder, for the message to a second process that wants it.
  std::string program = "deltafin-node";
  // Told of every read of the drive; must outlive the store. Null: nobody is.
  ReadRateMeter* meter = nullptr;
  // Tests and benches: slices read and written take the time of this drive as
  // well. Must outlive the store.
  ThrottledDrive* throttle = nullptr;
};

struct RecordStoreStats {
  uint64_t held_bytes = 0;  // of slices
  uint64_t held_slices = 0;
  uint64_t held_experts = 0;      // with any slice
  uint64_t complete_experts = 0;  // with every slice
  uint64_t quota_bytes = 0;
  uint64_t free_bytes = 0;  // of the file system, the reserve included
  uint64_t room_bytes = 0;  // that quota and reserve leave
  uint64_t bytes_read = 0;  // from the drive
  uint64_t bytes_installed = 0;
  uint64_t corrupt_slices = 0;   // dropped: digest, NaN scale or read error
  uint64_t damaged_entries = 0;  // of the index, found at Open and named
};

class RecordStore : public ExpertStore {
 public:
  // Makes the folder where it is missing, takes its lock and reads the index of
  // every layer. A torn last entry is cut off; a damaged one is logged with
  // its place, and what it held counts as missing. Errors: FAILED_PRECONDITION
  // for records of another model or format, with both values and what to do;
  // UNAVAILABLE naming the process that has the folder; DATA_LOSS for an index
  // without a readable header; those of the file system.
  static absl::StatusOr<std::unique_ptr<RecordStore>> Open(
      const std::string& folder, const RecordModel& model,
      const RecordStoreOptions& options);
  // REQUIRES: no call is in progress.
  ~RecordStore() override;

  const std::string& folder() const { return folder_; }
  const RecordModel& model() const { return model_; }
  const ExpertShape& shape() const override { return model_.shape; }
  int slices_per_read() const override;

  // Reads past the page cache, straight into `out` where slice and destination
  // lie on pages. A slice is ready when its digest and its scales are checked;
  // meanwhile the drive reads for other threads. Returns the bytes
  // read. Errors: NOT_FOUND when not all of the run is held, before anything
  // is read, or when it was removed meanwhile; DATA_LOSS when a slice differs
  // from its digest, has a NaN scale or cannot be read: that copy is dropped
  // for good, counted and logged, so that the next source serves it;
  // INVALID_ARGUMENT for a name outside the model; RESOURCE_EXHAUSTED.
  absl::StatusOr<uint64_t> Read(
      ExpertKey key, SliceRun run, std::span<uint8_t* const> out,
      absl::FunctionRef<void(int slice)> ready) override;

  // INVALID_ARGUMENT for a name outside the model.
  absl::Status CheckName(ExpertKey key, SliceRun run) const {
    return LayerOf(key, run).status();
  }

  uint64_t HeldMask(ExpertKey key) const override;
  // From 1 on; steps with every slice that comes or goes.
  uint64_t held_version() const override;
  bool IsNear(ExpertKey key, SliceRun run) const override {
    return Holds(key, run);
  }

  // Every slice of the run is held. Never blocks on the drive.
  bool Holds(ExpertKey key, SliceRun run) const;
  // The slices held, ascending, as runs that do not touch each other.
  std::vector<SliceRun> HeldSlices(ExpertKey key) const;
  // SHA-256 (hex) of the expert's released bytes as Install was told.
  std::optional<std::string> Identity(ExpertKey key) const;

  // Stores the slices of `run`, slices[i] being slice run.first + i in tile
  // order; any alignment. What is already held is not written again. Held once
  // this returns OK, also after a power cut; on an error nothing of `run` is
  // held that was not before, and its room is given back. `identity`: SHA-256
  // (hex) of the released bytes of the whole expert, or empty. Blocks on the
  // drive. Errors: RESOURCE_EXHAUSTED when quota, reserve or drive are full,
  // naming which; DATA_LOSS for a NaN scale; INVALID_ARGUMENT; those of the
  // file system.
  absl::Status Install(ExpertKey key, SliceRun run,
                       std::span<const uint8_t* const> slices,
                       std::string_view identity = {});
  // Whether quota and reserve leave room for `bytes` more.
  bool HasRoom(uint64_t bytes) const;

  // Forgets the slices of `run` that are held and gives their room back to the
  // file system. Reads under way end well or with NOT_FOUND. Errors: those of
  // the file system; the slices are then forgotten until the next Open.
  absl::Status Remove(ExpertKey key, SliceRun run);

  // A quota below what is held stops installs; removing is the caller's.
  void SetQuota(uint64_t quota_bytes);

  RecordStoreStats stats() const;

 private:
  RecordStore(std::string folder, RecordModel model, FolderLock lock,
              const RecordStoreOptions& options);
  absl::Status OpenLayers();
  // Errors: INVALID_ARGUMENT for a name outside the model.
  absl::StatusOr<LayerRecords*> LayerOf(ExpertKey key, SliceRun run) const;
  LayerRecords* FindLayer(ExpertKey key) const;

  const std::string folder_;
  const RecordModel model_;
  const FolderLock lock_;
  const std::unique_ptr<RecordShared> shared_;
  // By layer, read-only after Open; null below first_moe_layer.
  std::vector<std::unique_ptr<LayerRecords>> layers_;
};

}  // namespace deltafin
