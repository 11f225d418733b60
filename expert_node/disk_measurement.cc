#include "expert_node/disk_measurement.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/aligned_buffer.h"
#include "common/base/clock.h"
#include "common/base/direct_reader.h"
#include "common/base/file_io.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "expert_node/data_folder.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

constexpr uint64_t kPieceBytes = 4 << 20;
constexpr int kReaders = 4;

struct Piece {
  const DirectReader* file = nullptr;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

using Files = std::vector<std::unique_ptr<DirectReader>>;

bool HasExperts(const std::filesystem::path& file) {
  return file.extension() == ".safetensors" || file.extension() == ".experts";
}

absl::StatusOr<Files> OpenFiles(const std::string& dir) {
  std::error_code error;
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(dir, error)) {
    if (HasExperts(entry.path())) paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  Files files;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(files.emplace_back(), DirectReader::Open(path));
  }
  return files;
}

// What lies on the drive of a file: records have holes where nothing is.
absl::Status CutFile(const DirectReader& file, std::vector<Piece>* pieces) {
  ASSIGN_OR_RETURN(const FileDescriptor fd, OpenForReading(file.path()));
  const auto size = static_cast<off_t>(file.file_bytes());
  for (off_t end = 0; end < size;) {
    off_t at = lseek(fd.get(), end, SEEK_DATA);
    if (at < 0 && errno == ENXIO) break;  // a hole up to the end
    if (at < 0) at = end;                 // the file system does not tell
    end = lseek(fd.get(), at, SEEK_HOLE);
    if (end <= at || end > size) end = size;
    for (; at < end; at += kPieceBytes) {
      pieces->push_back(
          {&file, static_cast<uint64_t>(at),
           std::min(kPieceBytes, static_cast<uint64_t>(end - at))});
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Piece>> Cut(const Files& files,
                                       const std::string& dir) {
  std::vector<Piece> pieces;
  for (const auto& file : files) RETURN_IF_ERROR(CutFile(*file, &pieces));
  if (!pieces.empty()) return pieces;
  return absl::NotFoundError(
      fmt::format("{}: no experts to read there (yet)", dir));
}

// What all readers share. Thread-safe.
class Measurement {
 public:
  Measurement(std::vector<Piece> pieces, absl::Duration duration)
      : pieces_(std::move(pieces)),
        duration_(duration),
        begin_(SystemClock().Elapsed()) {}

  void ReadUntilTheEnd() {
    AlignedBuffer buffer;
    absl::Duration at;
    while ((at = SystemClock().Elapsed() - begin_) < duration_) {
      const Piece& piece = pieces_[next_++ % pieces_.size()];
      const auto read = piece.file->Read(piece.offset, piece.bytes, buffer);
      MutexLock lock(mutex_);
      if (!read.ok()) {
        status_ = read.status();
        return;
      }
      const absl::Duration done = SystemClock().Elapsed() - begin_;
      if (done <= First()) first_bytes_ += static_cast<double>(piece.bytes);
      if (done > duration_ / 2 && done <= duration_) {
        late_bytes_ += static_cast<double>(piece.bytes);
      }
    }
  }

  absl::StatusOr<DiskRates> Rates() {
    MutexLock lock(mutex_);
    if (!status_.ok()) return status_;
    DiskRates rates;
    rates.first_second = first_bytes_ / absl::ToDoubleSeconds(First());
    rates.sustained = late_bytes_ / absl::ToDoubleSeconds(duration_ / 2);
    return rates;
  }

 private:
  absl::Duration First() const { return std::min(absl::Seconds(1), duration_); }

  const std::vector<Piece> pieces_;
  const absl::Duration duration_;
  const absl::Duration begin_;
  std::atomic<uint64_t> next_{0};
  Mutex mutex_;
  double first_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  double late_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<DiskRates> MeasureDisk(const std::string& dir,
                                      absl::Duration duration) {
  ASSIGN_OR_RETURN(const Files files, OpenFiles(dir));
  ASSIGN_OR_RETURN(std::vector<Piece> pieces, Cut(files, dir));
  Measurement measurement(std::move(pieces), duration);
  std::vector<std::thread> readers;
  for (int i = 0; i < kReaders; ++i) {
    readers.emplace_back([&measurement] { measurement.ReadUntilTheEnd(); });
  }
  for (std::thread& reader : readers) reader.join();
  ASSIGN_OR_RETURN(DiskRates rates, measurement.Rates());
  rates.direct = std::all_of(files.begin(), files.end(),
                             [](const auto& file) { return file->direct(); });
  return rates;
}

absl::Status RunDiskMeasurement(const std::string& dir,
                                const std::string& data_dir,
                                absl::Duration duration) {
  std::unique_ptr<DataFolder> folder;  // first: a node that runs disturbs
  if (!data_dir.empty()) {
    ASSIGN_OR_RETURN(folder, DataFolder::Open(data_dir));
  }
  ASSIGN_OR_RETURN(const DiskRates rates, MeasureDisk(dir, duration));
  std::printf(
      "first second %.3f GB/s\nsustained    %.3f GB/s (last half of %s)\n",
      rates.first_second / 1e9, rates.sustained / 1e9,
      absl::FormatDuration(duration).c_str());
  if (!rates.direct) {
    std::printf(
        "not kept: the file system has no direct reads, so the page cache may "
        "have helped\n");
    return absl::OkStatus();
  }
  if (folder == nullptr) {
    std::printf("not kept: give the node's folder with --data\n");
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(folder->KeepSustainedRead(rates.sustained));
  std::printf("kept in %s\n", data_dir.c_str());
  return absl::OkStatus();
}

}  // namespace deltafin
