#include "expert_node/storage/source_digests.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "common/base/digest.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"

namespace deltafin {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{4} << 20;

class DigestFiller {
 public:
  DigestFiller(ModelSource& source, std::vector<SourceFile>& files,
               const std::function<void(uint64_t, uint64_t)>& progress,
               const std::function<bool()>& cancelled)
      : source_(source), progress_(progress), cancelled_(cancelled) {
    for (SourceFile& file : files) {
      if (!file.sha256.empty()) continue;
      wanted_.push_back(&file);
      total_ += file.bytes;
    }
  }

  absl::Status Run(int parallel) {
    const size_t num_threads =
        std::min<size_t>(std::max(parallel, 1), wanted_.size());
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < num_threads; ++i) {
      threads.emplace_back([this] { HashUntilDone(); });
    }
    threads.clear();  // joins
    MutexLock lock(mutex_);
    return status_;
  }

 private:
  void HashUntilDone() {
    while (true) {
      const size_t index = next_++;
      if (index >= wanted_.size()) return;
      const absl::Status status = Hash(*wanted_[index]);
      MutexLock lock(mutex_);
      if (!status.ok() && status_.ok()) status_ = status;
      if (!status_.ok()) return;
    }
  }

  absl::Status Hash(SourceFile& file) {
    Sha256 sha;
    std::vector<uint8_t> piece(std::min(kPieceBytes, file.bytes));
    for (uint64_t at = 0; at < file.bytes; at += piece.size()) {
      if (cancelled_ && cancelled_()) return absl::CancelledError("cancelled");
      piece.resize(std::min(kPieceBytes, file.bytes - at));
      RETURN_IF_ERROR(source_.Read(file.name, at, piece));
      sha.Update(piece);
      MutexLock lock(mutex_);
      done_ += piece.size();
      if (progress_) progress_(done_, total_);
    }
    file.sha256 = sha.FinishHex();
    return absl::OkStatus();
  }

  ModelSource& source_;
  const std::function<void(uint64_t, uint64_t)>& progress_;
  const std::function<bool()>& cancelled_;
  std::vector<SourceFile*> wanted_;
  uint64_t total_ = 0;
  std::atomic<size_t> next_{0};
  Mutex mutex_;
  uint64_t done_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::Status FillDigests(
    ModelSource& source, std::vector<SourceFile>& files, int parallel,
    const std::function<void(uint64_t done, uint64_t total)>& progress,
    const std::function<bool()>& cancelled) {
  return DigestFiller(source, files, progress, cancelled).Run(parallel);
}

}  // namespace deltafin
