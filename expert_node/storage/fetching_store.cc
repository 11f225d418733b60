#include "expert_node/storage/fetching_store.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/thread_affinity.h"
#include "expert_node/storage/released_identity.h"

namespace deltafin {

// One Read: which of its slices are ready.
class FetchingStore::Request {
 public:
  Request(ExpertKey key, SliceRun run, std::span<uint8_t* const> out,
          absl::FunctionRef<void(int)> ready)
      : key_(key), run_(run), out_(out), ready_(ready), done_(run.count) {}

  ExpertKey key() const { return key_; }
  std::span<uint8_t* const> OutOf(SliceRun run) const {
    return out_.subspan(run.first - run_.first, run.count);
  }
  void SetReady(int slice) {
    std::vector<bool>::reference done = done_[slice - run_.first];
    if (done) return;
    done = true;
    ready_(slice);
  }
  bool complete() const { return First(0) == run_.count; }
  void AddBytes(uint64_t bytes) { bytes_ += bytes; }
  uint64_t bytes() const { return bytes_; }

  // The longest run from the first slice that is not ready on whose slices are
  // either all held or all not; `held` tells which.
  SliceRun Next(const std::vector<SliceRun>& held_runs, bool* held) const {
    const int begin = First(0);
    *held = IsIn(held_runs, run_.first + begin);
    int end = begin + 1;
    while (end < run_.count && !done_[end] &&
           IsIn(held_runs, run_.first + end) == *held) {
      ++end;
    }
    return {run_.first + begin, end - begin};
  }

 private:
  int First(int from) const {
    while (from < run_.count && done_[from]) ++from;
    return from;
  }
  static bool IsIn(const std::vector<SliceRun>& runs, int slice) {
    return std::any_of(runs.begin(), runs.end(), [slice](SliceRun run) {
      return slice >= run.first && slice < run.first + run.count;
    });
  }

  const ExpertKey key_;
  const SliceRun run_;
  const std::span<uint8_t* const> out_;
  const absl::FunctionRef<void(int)> ready_;
  std::vector<bool> done_;  // by position in the run
  uint64_t bytes_ = 0;
};

FetchingStore::FetchingStore(RecordStore& records,
                             std::unique_ptr<ExpertStore> lower,
                             const FetchingStoreOptions& options)
    : records_(records), lower_(std::move(lower)), options_(options) {
  CHECK(lower_->shape() == records_.shape());
  installer_ = std::thread([this] {
    SetThreadName("expert-install");
    InstallerMain();
  });
}

FetchingStore::~FetchingStore() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
    changed_.NotifyAll();
  }
  installer_.join();
}

size_t FetchingStore::BytesOf(SliceRun run) const {
  return shape().slice_offset(run.first + run.count) -
         shape().slice_offset(run.first);
}

// Ends: a copy that cannot be used is dropped from the records, so the next
// turn fetches it.
absl::StatusOr<uint64_t> FetchingStore::Read(
    ExpertKey key, SliceRun run, std::span<uint8_t* const> out,
    absl::FunctionRef<void(int slice)> ready) {
  Request request(key, run, out, ready);
  while (!request.complete()) {
    bool held = false;
    const SliceRun next = request.Next(records_.HeldSlices(key), &held);
    RETURN_IF_ERROR(held ? ReadHeld(request, next) : Fetch(request, next));
  }
  return request.bytes();
}

absl::Status FetchingStore::ReadHeld(Request& request, SliceRun run) {
  const absl::StatusOr<uint64_t> bytes =
      records_.Read(request.key(), run, request.OutOf(run),
                    [&](int slice) { request.SetReady(slice); });
  if (bytes.ok()) {
    request.AddBytes(*bytes);
    return absl::OkStatus();
  }
  if (absl::IsNotFound(bytes.status())) return absl::OkStatus();
  if (!absl::IsDataLoss(bytes.status())) return bytes.status();
  MutexLock lock(mutex_);
  ++stats_.slices_refetched;
  return absl::OkStatus();
}

absl::Status FetchingStore::Fetch(Request& request, SliceRun run) {
  const ExpertKey key = request.key();
  BeginFetch(key);
  // Whoever fetched before may have brought some of it.
  for (const SliceRun held : records_.HeldSlices(key)) {
    if (held.first < run.first + run.count &&
        run.first < held.first + held.count) {
      EndFetch(key);
      return absl::OkStatus();
    }
  }
  const absl::StatusOr<uint64_t> bytes = ReadLower(request, run);
  if (!bytes.ok()) {
    EndFetch(key);
    return bytes.status();
  }
  request.AddBytes(*bytes);
  {
    MutexLock lock(mutex_);
    ++stats_.fetches;
    stats_.bytes_fetched += *bytes;
  }
  Queue(key, run, request.OutOf(run));
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> FetchingStore::Fill(
    ExpertKey key, SliceRun run, ReadMissing read,
    std::optional<ReadMissing> read_in_turn) {
  Filled filled;
  BeginFill(key);
  FillMissing(key, run, read, &filled);
  if (!filled.read.ok() && read_in_turn) {
    BeginFetch(key);
    filled.read = absl::OkStatus();
    FillMissing(key, run, *read_in_turn, &filled);
    EndFetch(key);
  }
  EndFill(key);
  RETURN_IF_ERROR(filled.read);
  RETURN_IF_ERROR(filled.install);
  return filled.bytes;
}

void FetchingStore::FillMissing(ExpertKey key, SliceRun run, ReadMissing read,
                                Filled* filled) {
  const uint64_t held = records_.HeldMask(key);
  for (int at = run.first; at < run.first + run.count;) {
    int end = at;
    while (end < run.first + run.count && (held >> end & 1) == 0) ++end;
    if (end > at) FillPart(key, {at, end - at}, read, filled);
    if (!filled->read.ok() || !filled->install.ok()) return;
    at = std::max(end, at + 1);
  }
}

void FetchingStore::FillPart(ExpertKey key, SliceRun missing, ReadMissing read,
                             Filled* filled) {
  if (!records_.HasRoom(BytesOf(missing))) {
    filled->install = absl::ResourceExhaustedError(
        records_.folder() + ": the drive or its quota is full");
    return;
  }
  Install install = {key, missing, std::vector<uint8_t>(BytesOf(missing))};
  std::vector<uint8_t*> slices;
  for (int i = 0; i < missing.count; ++i) {
    slices.push_back(install.bytes.data() + BytesOf({missing.first, i}));
  }
  const absl::StatusOr<uint64_t> bytes = read(missing, slices);
  filled->read = bytes.status();
  if (!bytes.ok()) return;
  {
    MutexLock lock(mutex_);
    ++stats_.fetches;
    stats_.bytes_fetched += *bytes;
  }
  filled->install = InstallOnDrive(install);
  Count(filled->install);
  if (filled->install.ok()) filled->bytes += BytesOf(missing);
}

absl::StatusOr<uint64_t> FetchingStore::ReadLower(Request& request,
                                                  SliceRun run) {
  const auto read = [&] {
    return lower_->Read(request.key(), run, request.OutOf(run),
                        [&](int slice) { request.SetReady(slice); });
  };
  if (options_.meter == nullptr) return read();
  const ReadRateMeter::Reading reading = options_.meter->Begin();
  absl::StatusOr<uint64_t> bytes = read();
  options_.meter->End(reading, bytes.ok() ? *bytes : 0);
  return bytes;
}

void FetchingStore::BeginFetch(ExpertKey key) {
  MutexLock lock(mutex_);
  while (!busy_.insert(key).second) changed_.Wait(mutex_);
}

void FetchingStore::EndFetch(ExpertKey key) {
  MutexLock lock(mutex_);
  busy_.erase(key);
  changed_.NotifyAll();
}

// What readers fetched of the expert is on the drive then.
void FetchingStore::BeginFill(ExpertKey key) {
  MutexLock lock(mutex_);
  while (busy_.contains(key) || filling_.contains(key)) changed_.Wait(mutex_);
  filling_.insert(key);
}

void FetchingStore::EndFill(ExpertKey key) {
  MutexLock lock(mutex_);
  filling_.erase(key);
  changed_.NotifyAll();
}

// The expert stays busy until it is installed, so that whoever wants it next
// finds it on the drive.
void FetchingStore::Queue(ExpertKey key, SliceRun run,
                          std::span<uint8_t* const> slices) {
  const uint64_t size = BytesOf(run);
  if (!records_.HasRoom(size)) {
    Count(absl::ResourceExhaustedError(records_.folder() +
                                       ": the drive or its quota is full"));
    EndFetch(key);
    return;
  }
  {
    MutexLock lock(mutex_);
    while (queued_bytes_ > 0 && queued_bytes_ + size > options_.queue_bytes) {
      changed_.Wait(mutex_);
    }
    queued_bytes_ += size;
  }
  Install install = {key, run, {}};
  install.bytes.reserve(size);
  for (int i = 0; i < run.count; ++i) {
    const uint8_t* const slice = slices[i];
    install.bytes.insert(install.bytes.end(), slice,
                         slice + BytesOf({run.first + i, 1}));
  }
  MutexLock lock(mutex_);
  queue_.push_back(std::move(install));
  changed_.NotifyAll();
}

void FetchingStore::InstallerMain() {
  mutex_.Lock();
  while (true) {
    while (queue_.empty() && !stop_) changed_.Wait(mutex_);
    if (queue_.empty()) break;
    const Install install = std::move(queue_.front());
    queue_.pop_front();
    mutex_.Unlock();
    Count(InstallOnDrive(install));
    mutex_.Lock();
    queued_bytes_ -= install.bytes.size();
    busy_.erase(install.key);
    changed_.NotifyAll();
  }
  mutex_.Unlock();
}

absl::Status FetchingStore::InstallOnDrive(const Install& install) {
  std::vector<const uint8_t*> slices;
  for (int i = 0; i < install.run.count; ++i) {
    slices.push_back(install.bytes.data() + BytesOf({install.run.first, i}));
  }
  // Whoever sees a whole expert is the one who can name its released bytes.
  std::string identity;
  if (install.run.count == shape().num_slices()) {
    identity = IdentityOfRecord(shape(), install.bytes);
  }
  return records_.Install(install.key, install.run, slices, identity);
}

void FetchingStore::Count(const absl::Status& installed) {
  bool changed = false;
  {
    MutexLock lock(mutex_);
    ++(installed.ok() ? stats_.runs_installed : stats_.runs_not_installed);
    changed = std::exchange(installing_ok_, installed.ok()) != installed.ok();
  }
  if (!changed) return;
  if (installed.ok()) {
    spdlog::info("{}: fetched experts are kept again", records_.folder());
  } else {
    spdlog::warn("fetched experts are served but not kept: {}",
                 installed.ToString());
  }
}

void FetchingStore::WaitForInstalls() {
  MutexLock lock(mutex_);
  while (queued_bytes_ > 0) changed_.Wait(mutex_);
}

FetchingStoreStats FetchingStore::stats() const {
  MutexLock lock(mutex_);
  return stats_;
}

}  // namespace deltafin
