// expert_node/storage/layer_records.h
//
// The records of one layer: data file, index file and what they hold, in
// memory. Part of RecordStore, whose contract it keeps. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "expert_node/storage/buffer_pool.h"
#include "expert_node/storage/drive_room.h"
#include "expert_node/storage/drive_turns.h"
#include "expert_node/storage/read_rate_meter.h"
#include "expert_node/storage/record_file.h"
#include "expert_node/storage/record_index.h"
#include "expert_node/storage/record_store.h"

namespace deltafin {

// What the layers of a store share.
struct RecordShared {
  RecordShared(const std::string& folder, const RecordStoreOptions& options)
      : room(folder, options.quota_bytes, options.reserve_bytes),
        turns(options.reads_at_once),
        meter(options.meter),
        throttle(options.throttle) {}

  DriveRoom room;
  DriveTurns turns;                // of reads
  ReadRateMeter* const meter;      // null: nobody is told of reads
  ThrottledDrive* const throttle;  // null: none
  BufferPool buffers;
  std::atomic<uint64_t> held_version{1};
  std::atomic<uint64_t> held_slices{0};
  std::atomic<uint64_t> held_experts{0};
  std::atomic<uint64_t> complete_experts{0};
  std::atomic<uint64_t> bytes_read{0};
  std::atomic<uint64_t> bytes_installed{0};
  std::atomic<uint64_t> corrupt_slices{0};
  std::atomic<uint64_t> damaged_entries{0};
};

class LayerRecords {
 public:
  // `shared` must outlive the object. Errors: those of RecordStore::Open.
  static absl::StatusOr<std::unique_ptr<LayerRecords>> Open(
      const std::string& folder, const RecordIndexHeader& header,
      RecordShared& shared);

  // REQUIRES below: expert and run are within the model.
  absl::StatusOr<uint64_t> Read(int expert, SliceRun run,
                                std::span<uint8_t* const> out,
                                absl::FunctionRef<void(int slice)> ready);
  uint64_t HeldMask(int expert) const;
  std::optional<Sha256Bytes> Identity(int expert) const;
  absl::Status Install(int expert, SliceRun run,
                       std::span<const uint8_t* const> slices,
                       const std::optional<Sha256Bytes>& identity);
  absl::Status Remove(int expert, SliceRun run);

  static uint64_t MaskOf(SliceRun run) {
    return (run.count == 64 ? ~uint64_t{0} : (uint64_t{1} << run.count) - 1)
           << run.first;
  }
  // Slices of full size that are read together while nobody else waits for the
  // drive.
  static int SlicesPerRead(const ExpertShape& shape);
  // The slices of `left` that the next request reads. While nobody waits for
  // the drive they are few, so that the first of them is ready early and the
  // last is soon checked; else many, since every request costs the processor
  // as much and whoever waits keeps the drive busy meanwhile.
  static SliceRun NextRead(const ExpertShape& shape, SliceRun left,
                           bool others_wait);
  // The ones of `mask` as runs, ascending.
  static std::vector<SliceRun> RunsOf(uint64_t mask);

 private:
  struct Expert {
    uint64_t held = 0;  // bit s: slice s
    // Steps whenever slices are removed: a read that began before then may
    // have met what was not its own.
    uint64_t removals = 0;
    std::optional<Sha256Bytes> identity;
    std::vector<Xxh128> digests;  // by slice; empty until one is held
  };
  // What a read compares with.
  struct Held {
    std::vector<Xxh128> digests;  // of its run
    uint64_t removals = 0;
    RecordFile* data = nullptr;
  };
  // One expert's record is written by one thread at a time.
  class Writing;

  LayerRecords(const std::string& folder, RecordIndexHeader header,
               RecordIndex index, RecordShared& shared);
  void Replay(const std::vector<RecordEntry>& entries);
  void Apply(const RecordEntry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ChangeHeld(Expert& expert, uint64_t held)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status OpenData();
  void Compact(size_t num_entries);

  absl::StatusOr<Held> BeginRead(int expert, SliceRun run);
  // Reads whole pages: in place where they fit, else by way of a buffer.
  absl::Status ReadSlices(DriveTurns::Turn turn, RecordFile& data, int expert,
                          SliceRun run, std::span<uint8_t* const> out);
  // data.Read, told to the meter; gives the turn back.
  template <typename Out>
  absl::Status ReadFrom(DriveTurns::Turn turn, RecordFile& data,
                        uint64_t offset, Out out, uint64_t bytes);
  // Where there is a throttle, takes the time of its drive.
  void Throttle(uint64_t bytes);
  // The verdict on a copy that cannot be used: NOT_FOUND when it was removed
  // meanwhile, else `why`, and it is dropped.
  absl::Status Drop(int expert, SliceRun run, uint64_t removals,
                    const absl::Status& why);
  absl::Status Forget(int expert, uint64_t mask);

  absl::Status InstallMissing(int expert, SliceRun run,
                              std::span<const uint8_t* const> slices,
                              const std::optional<Sha256Bytes>& identity);
  absl::Status WriteSlices(int expert, SliceRun run,
                           std::span<const uint8_t* const> slices);
  absl::StatusOr<RecordFile*> DataForWriting();
  // Gives the room of a run that is not held back.
  void PunchHole(int expert, SliceRun run);

  uint64_t RecordOffset(int expert) const {
    return uint64_t{header_.shape.stride_bytes()} * expert;
  }
  uint64_t OffsetOf(int expert, int slice) const {
    return RecordOffset(expert) + header_.shape.slice_offset(slice);
  }
  // End of the room of a run: a record's last page is its own.
  uint64_t EndOf(int expert, SliceRun run) const;
  size_t BytesOf(SliceRun run) const {
    return header_.shape.slice_offset(run.first + run.count) -
           header_.shape.slice_offset(run.first);
  }
  uint64_t BytesOf(uint64_t mask) const;
  std::string NameOf(int expert, SliceRun run) const;

  const std::string data_path_;
  const RecordIndexHeader header_;
  RecordShared& shared_;
  // Serialises appends; taken before mutex_.
  Mutex index_mutex_;
  RecordIndex index_ ABSL_GUARDED_BY(index_mutex_);
  mutable Mutex mutex_;
  CondVar writing_ended_;
  std::set<int> writing_ ABSL_GUARDED_BY(mutex_);
  std::vector<Expert> experts_ ABSL_GUARDED_BY(mutex_);
  // Null until there is one; never replaced afterwards.
  std::unique_ptr<RecordFile> data_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace deltafin
