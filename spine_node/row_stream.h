// spine_node/row_stream.h
//
// Rows of layers that memory does not hold, read again and again in the same
// order: while one layer is computed with, the next one is read into a second
// buffer, by own threads, past the page cache. What is handed out has been
// checked against its file's digest. Some readers check what they have read
// while others wait for the drive, so that it is asked all the time. Acquire,
// Release and TakeCounts belong to one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/aligned_buffer.h"
#include "common/base/digest.h"
#include "common/base/mutex.h"
#include "spine_node/spine_file.h"

namespace deltafin {

class RowStream {
 public:
  struct Counts {
    int64_t bytes = 0;   // read
    double seconds = 0;  // in which something was being read
  };

  // Makes file `index` again: fills `rows` with its payload and returns the
  // file that was written, open. Called by Acquire.
  using Remake = std::function<absl::StatusOr<std::unique_ptr<SpineFile>>(
      int index, std::span<uint8_t> rows)>;

  // Allocates two buffers of the largest payload and begins to read the first
  // files. `remake` may be empty. REQUIRES: not empty. Errors:
  // RESOURCE_EXHAUSTED.
  static absl::StatusOr<std::unique_ptr<RowStream>> Start(
      std::vector<std::unique_ptr<SpineFile>> files, Remake remake = {});
  ~RowStream();  // joins
  RowStream(const RowStream&) = delete;
  RowStream& operator=(const RowStream&) = delete;

  // The payload of file `index`, complete and checked, valid until Release or
  // another Acquire; waits for the disk. In order, the one after the last file
  // being the first, that is short; another one drops what was read ahead. What
  // failed ahead of time is tried once more; a file whose bytes are not those
  // of its digest is then made again. Errors: DATA_LOSS with the path, and why
  // it could not be made again; the next Acquire reads again.
  absl::StatusOr<const uint8_t*> Acquire(int index);
  // What was acquired last is done with: its buffer takes the file after next.
  void Release();

  uint64_t buffer_bytes() const { return buffer_bytes_; }
  // Since the last call.
  Counts TakeCounts();

 private:
  // A buffer and what it holds or is being filled with.
  struct Slot {
    AlignedBuffer memory;
    int index = -1;  // of the file; -1: none
    int64_t next_piece = 0;
    int64_t pieces_read = 0;
    int pieces_in_flight = 0;
    std::vector<Xxh128> digests;  // of the pieces
    absl::Status status;          // of the lowest piece that failed
    int64_t failed_piece = -1;
    bool checked = false;  // against the file's digest; `status` tells how
  };

  RowStream(std::vector<std::unique_ptr<SpineFile>> files, Remake remake)
      : files_(std::move(files)), remake_(std::move(remake)) {}

  int num_files() const { return static_cast<int>(files_.size()); }
  int FileAt(int64_t position) const {
    return static_cast<int>(position % num_files());
  }
  Slot& SlotAt(int64_t position) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return slots_[position % 2];
  }
  // Until its file is complete or has failed.
  void WaitFor(const Slot& slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Lets the slot take a file, unless it has it; waits for reads in flight. A
  // file that could not be read is tried again.
  void Assign(Slot& slot, int index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes the damaged file of the slot again; unlocks meanwhile. On an error it
  // is the slot's.
  void RemakeFile(Slot& slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The slot whose next piece is wanted first; null when there is none or the
  // drive has enough to do.
  Slot* NextToRead() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Reads and checks the slot's next piece; unlocks meanwhile.
  void ReadPiece(Slot& slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Finish(Slot& slot, int64_t piece, const absl::Status& read,
              const Xxh128& digest) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountBegin() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountEnd(uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReadPieces();

  // One is replaced by RemakeFile alone, while no reader has it.
  std::vector<std::unique_ptr<SpineFile>> files_;
  const Remake remake_;
  uint64_t buffer_bytes_ = 0;
  std::vector<std::thread> readers_;

  Mutex mutex_;
  CondVar work_;     // for the readers
  CondVar changed_;  // for the caller
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // The two slots hold the files at position_ and at position_ + 1.
  int64_t position_ ABSL_GUARDED_BY(mutex_) = 0;
  Slot slots_[2] ABSL_GUARDED_BY(mutex_);
  Counts counts_ ABSL_GUARDED_BY(mutex_);
  int reads_in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Duration busy_since_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace deltafin
