#include "expert_node/storage/record_index_format.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "common/base/status_macros.h"

namespace deltafin {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the files are little-endian");

constexpr char kMagic[8] = {'d', 'f', 'e', 'x', 'p', 'i', 'd', 'x'};
constexpr uint32_t kEntryMark = 0x5245464Fu;
constexpr uint32_t kHasIdentity = 1;
constexpr size_t kDigestHexBytes = 64;
// mark, kind, slot, expert, first slice, slices, flags
constexpr size_t kEntryFieldBytes = 7 * sizeof(uint32_t);
constexpr size_t kCrcBytes = sizeof(uint32_t);

constexpr std::array<uint32_t, 256> MakeCrcTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) {
      crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
    }
    table[i] = crc;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kCrcTable = MakeCrcTable();

// CRC-32C (Castagnoli).
uint32_t Crc32c(std::span<const uint8_t> bytes) {
  uint32_t crc = ~0u;
  for (const uint8_t byte : bytes) {
    crc = crc >> 8 ^ kCrcTable[(crc ^ byte) & 255];
  }
  return ~crc;
}

class FieldWriter {
 public:
  void Put(const void* bytes, size_t size) {
    out_.append(static_cast<const char*>(bytes), size);
  }
  void PutU32(uint32_t value) { Put(&value, sizeof(value)); }
  // Zeros up to `size` less the CRC, then the CRC.
  std::string Finish(size_t size) {
    out_.resize(size - kCrcBytes, '\0');
    PutU32(
        Crc32c({reinterpret_cast<const uint8_t*>(out_.data()), out_.size()}));
    return std::move(out_);
  }

 private:
  std::string out_;
};

class FieldReader {
 public:
  explicit FieldReader(const uint8_t* at) : at_(at) {}
  void Take(void* out, size_t size) {
    std::memcpy(out, at_, size);
    at_ += size;
  }
  uint32_t TakeU32() {
    uint32_t value;
    Take(&value, sizeof(value));
    return value;
  }

 private:
  const uint8_t* at_;
};

bool CrcIsGood(std::span<const uint8_t> bytes) {
  FieldReader crc(bytes.data() + bytes.size() - kCrcBytes);
  return crc.TakeU32() == Crc32c(bytes.first(bytes.size() - kCrcBytes));
}

absl::Status DamagedHeader(std::string_view why) {
  return absl::DataLossError(fmt::format(
      "no index of expert records: {}. Delete the file; what it named is "
      "fetched again",
      why));
}

// Bounds that later arithmetic relies on.
bool IsUsable(const RecordIndexHeader& header) {
  const ExpertShape& shape = header.shape;
  constexpr int kMaxWidth = 1 << 20;
  return shape.latent_size > 0 && shape.latent_size <= kMaxWidth &&
         shape.latent_size % kMxfp4Group == 0 && shape.intermediate_size > 0 &&
         shape.intermediate_size <= kMaxRecordSlices * kSliceColumns &&
         shape.intermediate_size % kMxfp4Group == 0 && header.layer >= 0 &&
         header.num_experts > 0 && header.num_experts <= kMaxWidth;
}

absl::StatusOr<RecordIndexHeader> ParseHeader(std::span<const uint8_t> bytes) {
  if (bytes.size() < kRecordHeaderBytes) {
    return DamagedHeader(
        fmt::format("{} bytes are less than a header", bytes.size()));
  }
  FieldReader in(bytes.data());
  char magic[sizeof(kMagic)];
  in.Take(magic, sizeof(magic));
  if (std::memcmp(magic, kMagic, sizeof(magic)) != 0) {
    return DamagedHeader("it does not begin with \"dfexpidx\"");
  }
  const uint32_t version = in.TakeU32();
  if (version != kRecordFormatVersion) {
    return absl::FailedPreconditionError(fmt::format(
        "has format {}, this program reads format {}: use the program that "
        "wrote it, or another folder",
        version, kRecordFormatVersion));
  }
  if (!CrcIsGood(bytes.first(kRecordHeaderBytes))) {
    return DamagedHeader("its header differs from its checksum");
  }
  RecordIndexHeader header;
  header.layer = static_cast<int>(in.TakeU32());
  header.shape.latent_size = static_cast<int>(in.TakeU32());
  header.shape.intermediate_size = static_cast<int>(in.TakeU32());
  header.num_experts = static_cast<int>(in.TakeU32());
  header.manifest_digest.resize(kDigestHexBytes);
  in.Take(header.manifest_digest.data(), kDigestHexBytes);
  if (!IsUsable(header)) return DamagedHeader("its sizes are out of range");
  return header;
}

// nullopt when the entry is not whole or not within the header's bounds.
std::optional<RecordEntry> ParseEntry(const RecordIndexHeader& header,
                                      std::span<const uint8_t> bytes) {
  if (!CrcIsGood(bytes)) return std::nullopt;
  FieldReader in(bytes.data());
  if (in.TakeU32() != kEntryMark) return std::nullopt;
  const uint32_t kind = in.TakeU32();
  const uint32_t slot = in.TakeU32();
  const uint32_t expert = in.TakeU32();
  const uint32_t first = in.TakeU32();
  const uint32_t count = in.TakeU32();
  const uint32_t flags = in.TakeU32();
  const uint32_t num_slices = header.shape.num_slices();
  if ((kind != 1 && kind != 2) || slot != expert || flags > kHasIdentity ||
      expert >= static_cast<uint32_t>(header.num_experts) || count == 0 ||
      count > num_slices || first > num_slices - count) {
    return std::nullopt;
  }
  RecordEntry entry;
  entry.kind = static_cast<RecordEntry::Kind>(kind);
  entry.expert = static_cast<int>(expert);
  entry.run = {static_cast<int>(first), static_cast<int>(count)};
  Sha256Bytes identity;
  in.Take(identity.data(), identity.size());
  if (flags & kHasIdentity) entry.identity = identity;
  if (entry.kind == RecordEntry::Kind::kRemoved) return entry;
  entry.digests.resize(count);
  in.Take(entry.digests.data(), sizeof(Xxh128) * count);
  return entry;
}

}  // namespace

static_assert(sizeof(Xxh128) == 16);

size_t RecordEntryBytes(const ExpertShape& shape) {
  return kEntryFieldBytes + sizeof(Sha256Bytes) +
         sizeof(Xxh128) * shape.num_slices() + kCrcBytes;
}

std::string EncodeRecordHeader(const RecordIndexHeader& header) {
  FieldWriter out;
  out.Put(kMagic, sizeof(kMagic));
  out.PutU32(kRecordFormatVersion);
  out.PutU32(header.layer);
  out.PutU32(header.shape.latent_size);
  out.PutU32(header.shape.intermediate_size);
  out.PutU32(header.num_experts);
  out.Put(header.manifest_digest.data(), header.manifest_digest.size());
  return out.Finish(kRecordHeaderBytes);
}

std::string EncodeRecordEntry(const RecordIndexHeader& header,
                              const RecordEntry& entry) {
  FieldWriter out;
  out.PutU32(kEntryMark);
  out.PutU32(static_cast<uint32_t>(entry.kind));
  out.PutU32(entry.expert);
  out.PutU32(entry.expert);
  out.PutU32(entry.run.first);
  out.PutU32(entry.run.count);
  out.PutU32(entry.identity ? kHasIdentity : 0);
  const Sha256Bytes identity = entry.identity.value_or(Sha256Bytes{});
  out.Put(identity.data(), identity.size());
  out.Put(entry.digests.data(), sizeof(Xxh128) * entry.digests.size());
  return out.Finish(RecordEntryBytes(header.shape));
}

absl::StatusOr<RecordIndexContents> ParseRecordIndex(
    std::span<const uint8_t> bytes) {
  RecordIndexContents contents;
  ASSIGN_OR_RETURN(contents.header, ParseHeader(bytes));
  const size_t entry_bytes = RecordEntryBytes(contents.header.shape);
  uint64_t at = kRecordHeaderBytes;
  while (bytes.size() - at >= entry_bytes) {
    std::optional<RecordEntry> entry =
        ParseEntry(contents.header, bytes.subspan(at, entry_bytes));
    if (entry) {
      contents.entries.push_back(*std::move(entry));
    } else if (bytes.size() == at + entry_bytes) {
      break;  // the last one: torn
    } else {
      contents.damaged.push_back(at);
    }
    at += entry_bytes;
  }
  contents.good_bytes = at;
  return contents;
}

absl::Status CheckSameRecords(const RecordIndexHeader& found,
                              const RecordIndexHeader& wanted) {
  if (found == wanted) return absl::OkStatus();
  const auto describe = [](const RecordIndexHeader& header) {
    return fmt::format("model {}, layer {}, {} experts of {} x {}",
                       header.manifest_digest, header.layer, header.num_experts,
                       header.shape.latent_size,
                       header.shape.intermediate_size);
  };
  return absl::FailedPreconditionError(fmt::format(
      "holds {}; wanted is {}. Name another folder for this model, or delete "
      "this one's layer-* files",
      describe(found), describe(wanted)));
}

std::optional<Sha256Bytes> ParseSha256Hex(std::string_view hex) {
  Sha256Bytes bytes{};
  if (hex.size() != 2 * bytes.size()) return std::nullopt;
  for (size_t i = 0; i < hex.size(); ++i) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    const size_t value = kDigits.find(hex[i]);
    if (value == std::string_view::npos) return std::nullopt;
    bytes[i / 2] = static_cast<uint8_t>(bytes[i / 2] << 4 | value);
  }
  return bytes;
}

std::string Sha256HexOf(const Sha256Bytes& bytes) {
  std::string hex;
  for (const uint8_t byte : bytes) hex += fmt::format("{:02x}", byte);
  return hex;
}

}  // namespace deltafin
