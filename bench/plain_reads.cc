#include "bench/plain_reads.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>

#include "bench/fio.h"
#include "common/base/aligned_buffer.h"
#include "common/base/check.h"
#include "common/base/direct_reader.h"
#include "common/base/file_io.h"
#include "spine_node/row_stream.h"
#include "spine_node/spine_file.h"

namespace deltafin::bench {
namespace {

constexpr uint64_t kPieceBytes = 4 << 20;
constexpr int kReadsAtOnce = 4;

double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
      .count();
}

using Readers = std::vector<std::unique_ptr<DirectReader>>;

Readers OpenAll(const std::vector<std::string>& files) {
  Readers readers;
  for (const std::string& path : files) {
    auto reader = DirectReader::Open(path);
    CHECK_OK(reader.status());
    readers.push_back(*std::move(reader));
  }
  return readers;
}

// With pages that are there.
AlignedBuffer TouchedBuffer(uint64_t bytes) {
  auto buffer = AlignedBuffer::Allocate(bytes);
  CHECK_OK(buffer.status());
  std::memset(buffer->data(), 1, bytes);
  return *std::move(buffer);
}

struct Piece {
  int file = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

std::vector<Piece> PiecesOf(const Readers& readers) {
  std::vector<Piece> pieces;
  for (size_t i = 0; i < readers.size(); ++i) {
    const uint64_t size = readers[i]->file_bytes();
    for (uint64_t at = 0; at < size; at += kPieceBytes) {
      pieces.push_back(
          {static_cast<int>(i), at, std::min(kPieceBytes, size - at)});
    }
  }
  return pieces;
}

// place(piece, thread) tells where a piece goes.
template <typename Place>
double ReadAll(const Readers& readers, Place place) {
  const std::vector<Piece> pieces = PiecesOf(readers);
  std::atomic<size_t> next{0};
  std::atomic<uint64_t> bytes{0};
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::thread> threads;
  for (int t = 0; t < kReadsAtOnce; ++t) {
    threads.emplace_back([&, t] {
      for (size_t p; (p = next++) < pieces.size();) {
        const Piece& piece = pieces[p];
        CHECK_OK(readers[piece.file]->ReadAligned(piece.offset, piece.bytes,
                                                  place(piece, t)));
        bytes += piece.bytes;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return static_cast<double>(bytes) / SecondsSince(begin);
}

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
  const Readers readers = OpenAll(files);
  uint64_t largest = 0;
  for (const auto& reader : readers) {
    largest = std::max(largest, SpineFile::BufferBytes(reader->file_bytes()));
  }
  AlignedBuffer memory = TouchedBuffer(2 * largest);
  return ReadAll(readers, [&](const Piece& piece, int) {
    return memory.data() + largest * (piece.file % 2) + piece.offset;
  });
}

double SmallBufferRate(const std::vector<std::string>& files) {
  AlignedBuffer memory = TouchedBuffer(kReadsAtOnce * kPieceBytes);
  return ReadAll(OpenAll(files), [&](const Piece&, int thread) {
    return memory.data() + kPieceBytes * thread;
  });
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
  auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 2 * num_files; ++i) {
    if (i == num_files) {
      (*stream)->TakeCounts();
      begin = std::chrono::steady_clock::now();
    }
    CHECK_OK((*stream)->Acquire(i % num_files).status());
    (*stream)->Release();
  }
  const double seconds = SecondsSince(begin);
  return static_cast<double>((*stream)->TakeCounts().bytes) / seconds;
}

double FioRate(const std::vector<std::string>& files) {
  if (!FioVersion()) return 0;
  constexpr uint64_t kRound = kReadsAtOnce * kPieceBytes;
  double bytes = 0;
  double seconds = 0;
  for (const auto& reader : OpenAll(files)) {
    const uint64_t whole = reader->file_bytes() / kRound * kRound;
    if (whole == 0) continue;
    const auto rate =
        FioReadRate(reader->path(), whole, kPieceBytes, kReadsAtOnce);
    if (!rate) return 0;
    bytes += static_cast<double>(whole);
    seconds += static_cast<double>(whole) / *rate;
  }
  return seconds > 0 ? bytes / seconds : 0;
}

}  // namespace deltafin::bench
