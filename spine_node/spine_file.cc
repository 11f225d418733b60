#include "spine_node/spine_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/file_io.h"
#include "common/base/status_macros.h"
#include "spine_node/first_error.h"

namespace deltafin {
namespace {

constexpr std::array<char, 8> kMagic = {'D', 'F', 'S', 'P', 'I', 'N', 'E', 0};
constexpr uint32_t kFormatVersion = 1;
constexpr uint32_t kPieceBytes = uint32_t{4} << 20;

struct Header {
  std::array<char, 8> magic = kMagic;
  uint32_t format_version = kFormatVersion;
  uint32_t piece_bytes = kPieceBytes;
  uint64_t payload_bytes = 0;
  Xxh128 layout;
  Xxh128 source;
  Xxh128 payload;
  Xxh128 header;  // of what stands before
};
static_assert(sizeof(Header) == 88);

Xxh128 HeaderDigest(const Header& header) {
  return Xxh3Digest(
      {reinterpret_cast<const uint8_t*>(&header), offsetof(Header, header)});
}

Xxh128 DigestOfPieces(std::span<const Xxh128> pieces) {
  return Xxh3Digest({reinterpret_cast<const uint8_t*>(pieces.data()),
                     pieces.size() * sizeof(Xxh128)});
}

int64_t NumPieces(uint64_t bytes) {
  return static_cast<int64_t>((bytes + kPieceBytes - 1) / kPieceBytes);
}

// Piece `index` of a payload.
template <typename Byte>
std::span<Byte> Piece(std::span<Byte> payload, int64_t index) {
  const size_t begin = size_t{kPieceBytes} * index;
  return payload.subspan(begin,
                         std::min<size_t>(kPieceBytes, payload.size() - begin));
}

absl::Status Damaged(const std::string& path, const char* what) {
  return absl::DataLossError(absl::StrCat(path, ": damaged (", what, ")"));
}

absl::StatusOr<Header> ReadHeader(const std::string& path,
                                  const SpineFileKey& key) {
  ASSIGN_OR_RETURN(const FileDescriptor file, OpenForReading(path));
  ASSIGN_OR_RETURN(const uint64_t file_bytes, FileSize(file.get(), path));
  if (file_bytes < kSpineFileHeaderBytes) {
    return Damaged(path, "shorter than its header");
  }
  Header header;
  RETURN_IF_ERROR(
      ReadExactly(file.get(), 0,
                  {reinterpret_cast<uint8_t*>(&header), sizeof(header)}, path));
  if (header.magic != kMagic || header.format_version != kFormatVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": not a spine file of format ", kFormatVersion));
  }
  if (header.header != HeaderDigest(header) ||
      header.piece_bytes != kPieceBytes) {
    return Damaged(path, "header digest differs");
  }
  if (SpineFileKey{header.payload_bytes, header.layout, header.source} != key) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": was made from other weights"));
  }
  if (file_bytes != kSpineFileHeaderBytes + key.payload_bytes) {
    return Damaged(path, "file size differs");
  }
  return header;
}

}  // namespace

Xxh128 LayoutDigest(const UnitLayout& layout) {
  bool int8 = false;
  std::string places;
  for (const MatrixPlace& place : layout.matrices) {
    if (!place.in_rows) continue;
    int8 = place.view->format == WeightFormat::kInt8;
    absl::StrAppend(&places, place.tensor.name, " ", place.view->rows, " ",
                    place.view->cols, " ", place.offset, " ",
                    place.scale_offset, "\n");
  }
  const std::string text = absl::StrCat(int8 ? "int8" : "bf16", " rows of ",
                                        layout.name, "\n", places);
  return Xxh3Digest(
      {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

absl::Status CheckSpineFile(const std::string& path, const SpineFileKey& key) {
  return ReadHeader(path, key).status();
}

absl::StatusOr<std::unique_ptr<SpineFile>> SpineFile::Open(
    const std::string& path, const SpineFileKey& key) {
  ASSIGN_OR_RETURN(const Header header, ReadHeader(path, key));
  std::unique_ptr<SpineFile> file(new SpineFile);
  ASSIGN_OR_RETURN(file->reader_, DirectReader::Open(path));
  file->payload_bytes_ = header.payload_bytes;
  file->payload_digest_ = header.payload;
  return file;
}

int64_t SpineFile::num_pieces() const { return NumPieces(payload_bytes_); }

uint64_t SpineFile::piece_bytes(int64_t index) const {
  return std::min<uint64_t>(kPieceBytes,
                            payload_bytes_ - uint64_t{kPieceBytes} * index);
}

absl::Status SpineFile::ReadPiece(int64_t index, uint8_t* payload) const {
  const uint64_t begin = uint64_t{kPieceBytes} * index;
  return reader_->ReadAligned(kSpineFileHeaderBytes + begin, piece_bytes(index),
                              payload + begin);
}

Xxh128 SpineFile::DigestOfPiece(int64_t index, const uint8_t* payload) const {
  return Xxh3Digest({payload + uint64_t{kPieceBytes} * index,
                     static_cast<size_t>(piece_bytes(index))});
}

absl::Status SpineFile::CheckPayload(std::span<const Xxh128> pieces) const {
  if (DigestOfPieces(pieces) == payload_digest_) return absl::OkStatus();
  return Damaged(path(), "payload digest differs");
}

absl::Status ReadSpineFile(const std::string& path, const SpineFileKey& key,
                           ThreadPool& threads, std::span<uint8_t> out) {
  ASSIGN_OR_RETURN(const auto file, SpineFile::Open(path, key));
  std::vector<Xxh128> digests(file->num_pieces());
  FirstError<absl::Status> error;
  threads.ParallelFor(digests.size(), [&](int64_t i, int) {
    error.Report(i, file->ReadPiece(i, out.data()));
    digests[i] = file->DigestOfPiece(i, out.data());
  });
  RETURN_IF_ERROR(error.status());
  return file->CheckPayload(digests);
}

absl::Status WriteSpineFile(const std::string& path, const SpineFileKey& key,
                            ThreadPool& threads,
                            std::span<const uint8_t> payload) {
  ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  std::vector<Xxh128> digests(NumPieces(payload.size()));
  FirstError<absl::Status> error;
  threads.ParallelFor(digests.size(), [&](int64_t i, int) {
    const std::span<const uint8_t> piece = Piece(payload, i);
    digests[i] = Xxh3Digest(piece);
    error.Report(
        i,
        file.WriteAt(kSpineFileHeaderBytes + uint64_t{kPieceBytes} * i, piece));
  });
  RETURN_IF_ERROR(error.status());
  Header header;
  header.payload_bytes = key.payload_bytes;
  header.layout = key.layout;
  header.source = key.source;
  header.payload = DigestOfPieces(digests);
  header.header = HeaderDigest(header);
  std::array<uint8_t, kSpineFileHeaderBytes> block = {};
  std::memcpy(block.data(), &header, sizeof(header));
  RETURN_IF_ERROR(file.WriteAt(0, block));
  return file.Commit();
}

}  // namespace deltafin
