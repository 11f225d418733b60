#include "coordinator/cli/logits_dump.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace deltafin {
namespace {

static_assert(std::endian::native == std::endian::little);

// Length word and JSON, padded with spaces: enough for any two integers, and
// the rows begin on a cache line.
constexpr size_t kHeaderBytes = 256;
constexpr size_t kReadBytes = size_t{1} << 20;

using Header = std::array<uint8_t, kHeaderBytes>;

Header MakeHeader(int64_t rows, int64_t vocab_size) {
  const std::string json = absl::StrCat(
      R"({"logits":{"dtype":"F32","shape":[)", rows, ",", vocab_size,
      R"(],"data_offsets":[0,)", rows * vocab_size * sizeof(float), "]}}");
  Header header;
  header.fill(' ');
  const uint64_t length = kHeaderBytes - sizeof(uint64_t);
  std::memcpy(header.data(), &length, sizeof(length));
  std::memcpy(header.data() + sizeof(length), json.data(), json.size());
  return header;
}

std::span<const uint8_t> Bytes(std::span<const float> values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size_bytes()};
}

}  // namespace

absl::StatusOr<LogitsDump> LogitsDump::Create(const std::string& path,
                                              int64_t vocab_size) {
  ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  RETURN_IF_ERROR(file.Append(MakeHeader(0, vocab_size)));
  return LogitsDump(std::move(file), vocab_size);
}

absl::Status LogitsDump::Append(std::span<const float> row) {
  RETURN_IF_ERROR(file_.Append(Bytes(row)));
  ++rows_;
  return absl::OkStatus();
}

absl::Status LogitsDump::Commit() {
  RETURN_IF_ERROR(file_.WriteAt(0, MakeHeader(rows_, vocab_size_)));
  return file_.Commit();
}

absl::Status HashDumpedRows(const std::string& path, Sha256& hash) {
  ASSIGN_OR_RETURN(const FileDescriptor file, OpenForReading(path));
  ASSIGN_OR_RETURN(const uint64_t size, FileSize(file.get(), path));
  std::vector<uint8_t> buffer(kReadBytes);
  for (uint64_t at = kHeaderBytes; at < size; at += buffer.size()) {
    buffer.resize(std::min<uint64_t>(kReadBytes, size - at));
    RETURN_IF_ERROR(ReadExactly(file.get(), at, buffer, path));
    hash.Update(buffer);
  }
  return absl::OkStatus();
}

}  // namespace deltafin
