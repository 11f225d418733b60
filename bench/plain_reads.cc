#include "bench/plain_reads.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>

#include "common/base/aligned_buffer.h"
#include "common/base/check.h"
#include "common/base/direct_reader.h"
#include "common/base/file_io.h"
#include "spine_node/row_stream.h"
#include "spine_node/spine_file.h"

namespace deltafin::bench {
namespace {

constexpr uint64_t kPieceBytes = 4 << 20;
constexpr int kReaders = 4;

double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
      .count();
}

struct Piece {
  const DirectReader* file = nullptr;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// What the file says of itself: places in spine_file.h.
SpineFileKey KeyIn(const std::string& path) {
  const auto file = OpenForReading(path);
  CHECK_OK(file.status());
  uint8_t header[56];
  CHECK_OK(ReadExactly(file->get(), 0, header, path));
  SpineFileKey key;
  std::memcpy(&key.payload_bytes, header + 16, sizeof(key.payload_bytes));
  std::memcpy(&key.layout, header + 24, sizeof(key.layout));
  std::memcpy(&key.source, header + 40, sizeof(key.source));
  return key;
}

}  // namespace

double PlainRate(const std::vector<std::string>& files) {
  std::vector<std::unique_ptr<DirectReader>> readers;
  std::vector<Piece> pieces;
  double bytes = 0;
  for (const std::string& path : files) {
    auto reader = DirectReader::Open(path);
    CHECK_OK(reader.status());
    readers.push_back(*std::move(reader));
    const DirectReader& file = *readers.back();
    for (uint64_t at = 0; at < file.file_bytes(); at += kPieceBytes) {
      pieces.push_back(
          {&file, at, std::min(kPieceBytes, file.file_bytes() - at)});
      bytes += static_cast<double>(pieces.back().bytes);
    }
  }
  std::atomic<size_t> next{0};
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::thread> threads;
  for (int i = 0; i < kReaders; ++i) {
    threads.emplace_back([&] {
      auto buffer = AlignedBuffer::Allocate(kPieceBytes + 4096);
      CHECK_OK(buffer.status());
      for (size_t p; (p = next++) < pieces.size();) {
        CHECK_OK(pieces[p].file->ReadAligned(pieces[p].offset, pieces[p].bytes,
                                             buffer->data()));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return bytes / SecondsSince(begin);
}

double StreamRate(const std::vector<std::string>& files) {
  std::vector<std::unique_ptr<SpineFile>> opened;
  for (const std::string& path : files) {
    auto file = SpineFile::Open(path, KeyIn(path));
    CHECK_OK(file.status());
    opened.push_back(*std::move(file));
  }
  const int num_files = static_cast<int>(opened.size());
  auto stream = RowStream::Start(std::move(opened));
  CHECK_OK(stream.status());
  // A round first, in which the buffers get their pages.
  for (int i = 0; i < 2 * num_files; ++i) {
    if (i == num_files) (*stream)->TakeCounts();
    CHECK_OK((*stream)->Acquire(i % num_files).status());
    (*stream)->Release();
  }
  const RowStream::Counts counts = (*stream)->TakeCounts();
  return static_cast<double>(counts.bytes) / counts.seconds;
}

double FioRate(const std::vector<std::string>& files) {
  std::string names;
  for (const std::string& path : files) {
    names += (names.empty() ? "" : ":") + path;
  }
  const std::string command =
      "fio --name=spine --filename='" + names +
      "' --rw=read --bs=4m --direct=1 --ioengine=psync --numjobs=4 --thread "
      "--file_service_type=sequential --offset_increment=25% --runtime=4 "
      "--time_based --group_reporting "
      "--readonly --output-format=terse --terse-version=3 2>/dev/null";
  FILE* const fio = popen(command.c_str(), "r");
  if (fio == nullptr) return 0;
  char line[4096] = {};
  const bool told = std::fgets(line, sizeof(line), fio) != nullptr;
  if (pclose(fio) != 0 || !told) return 0;
  // Fields end in ';'; the seventh is the read rate in KiB a second.
  const char* field = line;
  for (int i = 0; i < 6 && field != nullptr; ++i) {
    field = std::strchr(field, ';');
    if (field != nullptr) ++field;
  }
  return field == nullptr ? 0 : 1024 * std::atof(field);
}

}  // namespace deltafin::bench
