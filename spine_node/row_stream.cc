#include "spine_node/row_stream.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/thread_affinity.h"

namespace deltafin {
namespace {

// Four reads keep a drive busy; as many more readers check meanwhile, so that
// no read waits for a check that waits for a processor (docs/performance.md).
constexpr int kReadsAtOnce = 4;
constexpr int kReaders = 2 * kReadsAtOnce;

}  // namespace

absl::StatusOr<std::unique_ptr<RowStream>> RowStream::Start(
    std::vector<std::unique_ptr<SpineFile>> files, Remake remake) {
  uint64_t largest = 0;
  for (const auto& file : files) {
    largest = std::max(largest, SpineFile::BufferBytes(file->payload_bytes()));
  }
  std::unique_ptr<RowStream> stream(
      new RowStream(std::move(files), std::move(remake)));
  const int num_slots = std::min(stream->num_files(), 2);
  stream->buffer_bytes_ = num_slots * largest;
  MutexLock lock(stream->mutex_);
  for (int i = 0; i < num_slots; ++i) {
    Slot& slot = stream->SlotAt(i);
    ASSIGN_OR_RETURN(slot.memory, AlignedBuffer::Allocate(largest));
    stream->Assign(slot, i);
  }
  for (int i = 0; i < kReaders; ++i) {
    stream->readers_.emplace_back([stream = stream.get(), i] {
      SetThreadName("spine-read" + std::to_string(i));
      stream->ReadPieces();
    });
  }
  return stream;
}

RowStream::~RowStream() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    work_.NotifyAll();
  }
  for (std::thread& reader : readers_) reader.join();
}

absl::StatusOr<const uint8_t*> RowStream::Acquire(int index) {
  MutexLock lock(mutex_);
  if (FileAt(position_) != index) {
    position_ = FileAt(position_ + 1) == index ? position_ + 1 : index;
  }
  Slot& slot = SlotAt(position_);
  const bool was_ahead = slot.index == index;
  Assign(slot, index);
  if (num_files() > 1) Assign(SlotAt(position_ + 1), FileAt(position_ + 1));
  WaitFor(slot);
  if (!slot.status.ok() && was_ahead) {
    Assign(slot, index);
    WaitFor(slot);
  }
  if (!slot.status.ok() && slot.checked && remake_) RemakeFile(slot);
  if (!slot.status.ok()) return slot.status;
  return slot.memory.data();
}

void RowStream::RemakeFile(Slot& slot) {
  std::unique_ptr<SpineFile>& file = files_[slot.index];
  const absl::string_view damage = slot.status.message();
  spdlog::warn("{}; making it again",
               std::string_view(damage.data(), damage.size()));
  const std::span<uint8_t> rows = slot.memory.bytes();
  mutex_.Unlock();
  absl::StatusOr<std::unique_ptr<SpineFile>> made =
      remake_(slot.index, rows.first(file->payload_bytes()));
  mutex_.Lock();
  if (!made.ok()) {
    slot.status = absl::DataLossError(absl::StrCat(
        damage, "; it cannot be made again: ", made.status().message()));
    return;
  }
  file = *std::move(made);
  slot.next_piece = file->num_pieces();
  slot.status = absl::OkStatus();
}

void RowStream::Release() {
  MutexLock lock(mutex_);
  if (num_files() == 1) return;
  ++position_;
  Assign(SlotAt(position_ + 1), FileAt(position_ + 1));
}

RowStream::Counts RowStream::TakeCounts() {
  MutexLock lock(mutex_);
  if (reads_in_flight_ > 0) {
    const absl::Duration now = SystemClock().Elapsed();
    counts_.seconds += absl::ToDoubleSeconds(now - busy_since_);
    busy_since_ = now;
  }
  return std::exchange(counts_, {});
}

void RowStream::WaitFor(const Slot& slot) {
  while (slot.pieces_in_flight > 0 || (slot.status.ok() && !slot.checked)) {
    changed_.Wait(mutex_);
  }
}

void RowStream::Assign(Slot& slot, int index) {
  if (slot.index == index && slot.status.ok()) return;
  const int64_t num_pieces = files_[index]->num_pieces();
  slot.next_piece = INT64_MAX;  // no further reads of what it held
  while (slot.pieces_in_flight > 0) changed_.Wait(mutex_);
  slot.index = index;
  slot.next_piece = 0;
  slot.pieces_read = 0;
  slot.digests.assign(num_pieces, {});
  slot.status = absl::OkStatus();
  slot.failed_piece = -1;
  slot.checked = false;
  work_.NotifyAll();
}

RowStream::Slot* RowStream::NextToRead() {
  if (reads_in_flight_ == kReadsAtOnce) return nullptr;
  for (const int64_t position : {position_, position_ + 1}) {
    Slot& slot = SlotAt(position);
    if (slot.index < 0 || !slot.status.ok()) continue;
    if (slot.next_piece < files_[slot.index]->num_pieces()) return &slot;
  }
  return nullptr;
}

void RowStream::ReadPieces() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    if (Slot* const slot = NextToRead()) {
      ReadPiece(*slot);
    } else {
      work_.Wait(mutex_);
    }
  }
}

void RowStream::ReadPiece(Slot& slot) {
  const int64_t piece = slot.next_piece++;
  const SpineFile& file = *files_[slot.index];
  uint8_t* const memory = slot.memory.data();
  ++slot.pieces_in_flight;
  CountBegin();
  mutex_.Unlock();
  const absl::Status read = file.ReadPiece(piece, memory);
  mutex_.Lock();
  CountEnd(read.ok() ? file.piece_bytes(piece) : 0);
  mutex_.Unlock();
  work_.NotifyOne();  // the drive has a free place
  const Xxh128 digest = file.DigestOfPiece(piece, memory);
  mutex_.Lock();
  Finish(slot, piece, read, digest);
}

void RowStream::Finish(Slot& slot, int64_t piece, const absl::Status& read,
                       const Xxh128& digest) {
  --slot.pieces_in_flight;
  ++slot.pieces_read;
  slot.digests[piece] = digest;
  if (!read.ok() && (slot.failed_piece < 0 || piece < slot.failed_piece)) {
    slot.status = read;
    slot.failed_piece = piece;
  }
  const SpineFile& file = *files_[slot.index];
  if (slot.status.ok() && slot.pieces_read == file.num_pieces()) {
    slot.status = file.CheckPayload(slot.digests);
    slot.checked = true;
  }
  if (slot.pieces_in_flight == 0) changed_.NotifyAll();
}

void RowStream::CountBegin() {
  if (++reads_in_flight_ == 1) busy_since_ = SystemClock().Elapsed();
}

void RowStream::CountEnd(uint64_t bytes) {
  counts_.bytes += static_cast<int64_t>(bytes);
  if (--reads_in_flight_ > 0) return;
  counts_.seconds +=
      absl::ToDoubleSeconds(SystemClock().Elapsed() - busy_since_);
}

}  // namespace deltafin
