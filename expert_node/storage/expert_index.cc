#include "expert_node/storage/expert_index.h"

#include <charconv>
#include <filesystem>
#include <string_view>
#include <utility>

#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "rocksdb/write_batch.h"

namespace deltafin {
namespace {

constexpr char kQuotaKey[] = "quota";

absl::Status FromRocks(const rocksdb::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const std::string message = "expert ledger: " + status.ToString();
  if (status.IsNotFound()) return absl::NotFoundError(message);
  if (status.IsCorruption()) return absl::DataLossError(message);
  if (status.IsNoSpace()) return absl::ResourceExhaustedError(message);
  return absl::UnavailableError(message);
}

rocksdb::Options LedgerOptions() {
  rocksdb::Options options;
  options.create_if_missing = true;
  // 82,432 rows of some 100 bytes: small buffers, few files.
  options.write_buffer_size = size_t{4} << 20;
  options.max_open_files = 64;
  options.keep_log_file_num = 1;
  options.compression = rocksdb::kNoCompression;
  return options;
}

std::string RowKey(ExpertKey key) {
  return fmt::format("expert/{:04d}/{:05d}", key.layer, key.expert);
}

// "0+3,5+1 IDENTITY HEAT"; "-" for nothing held and for no identity.
std::string EncodeRow(const ExpertIndex::Row& row) {
  std::string held;
  for (const SliceRun run : row.held) {
    held +=
        fmt::format("{}{}+{}", held.empty() ? "" : ",", run.first, run.count);
  }
  return fmt::format("{} {} {}", held.empty() ? "-" : held,
                     row.identity.empty() ? "-" : row.identity, row.heat);
}

// Takes a number and the separator behind it off the front.
template <typename Number>
bool TakeNumber(std::string_view& text, char separator, Number* number) {
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), *number);
  if (error != std::errc()) return false;
  text.remove_prefix(end - text.data());
  if (!text.empty() && text.front() == separator) text.remove_prefix(1);
  return true;
}

absl::StatusOr<ExpertIndex::Row> DecodeRow(std::string_view text) {
  const absl::Status damaged =
      absl::DataLossError(fmt::format("expert ledger: \"{}\" is no row", text));
  const size_t first = text.find(' ');
  const size_t second = text.rfind(' ');
  if (first == std::string_view::npos || first == second) return damaged;
  std::string_view held = text.substr(0, first);
  std::string_view heat = text.substr(second + 1);
  ExpertIndex::Row row;
  while (held != "-" && !held.empty()) {
    SliceRun run;
    if (!TakeNumber(held, '+', &run.first) ||
        !TakeNumber(held, ',', &run.count)) {
      return damaged;
    }
    row.held.push_back(run);
  }
  row.identity = text.substr(first + 1, second - first - 1);
  if (row.identity == "-") row.identity.clear();
  if (!TakeNumber(heat, '\0', &row.heat)) return damaged;
  return row;
}

}  // namespace

struct ExpertIndex::Database {
  std::unique_ptr<rocksdb::DB> db;

  // nullopt when the key is absent.
  absl::StatusOr<std::optional<std::string>> Get(const std::string& key) const {
    std::string value;
    const rocksdb::Status status = db->Get(rocksdb::ReadOptions(), key, &value);
    if (status.IsNotFound()) return std::nullopt;
    RETURN_IF_ERROR(FromRocks(status));
    return value;
  }
};

ExpertIndex::ExpertIndex(std::unique_ptr<Database> database)
    : database_(std::move(database)) {}

ExpertIndex::~ExpertIndex() = default;

absl::StatusOr<std::unique_ptr<ExpertIndex>> ExpertIndex::Open(
    const std::string& folder) {
  const std::string path = folder + "/ledger";
  rocksdb::DB* db = nullptr;
  rocksdb::Status status = rocksdb::DB::Open(LedgerOptions(), path, &db);
  if (!status.ok()) {
    RETURN_IF_ERROR(status.IsIOError() &&
                            status.ToString().find("LOCK") != std::string::npos
                        ? FromRocks(status)
                        : absl::OkStatus());
    spdlog::warn("{}: {}; the ledger begins anew, without heat", path,
                 status.ToString());
    std::error_code error;
    std::filesystem::remove_all(path, error);
    status = rocksdb::DB::Open(LedgerOptions(), path, &db);
  }
  RETURN_IF_ERROR(FromRocks(status));
  auto database = std::make_unique<Database>();
  database->db.reset(db);
  return std::unique_ptr<ExpertIndex>(new ExpertIndex(std::move(database)));
}

absl::StatusOr<std::optional<ExpertIndex::Row>> ExpertIndex::Find(
    ExpertKey key) const {
  ASSIGN_OR_RETURN(const std::optional<std::string> text,
                   database_->Get(RowKey(key)));
  if (!text) return std::nullopt;
  return DecodeRow(*text);
}

absl::Status ExpertIndex::Rebuild(const RecordStore& records) {
  return Write(records, false);
}

absl::Status ExpertIndex::Update(const RecordStore& records) {
  return Write(records, true);
}

// A row that cannot be read is written anew; so is every row that differs.
absl::Status ExpertIndex::Write(const RecordStore& records, bool add_reads) {
  const RecordModel& model = records.model();
  rocksdb::WriteBatch batch;
  MutexLock lock(mutex_);
  added_reads_.resize(size_t(model.num_layers) * model.num_experts);
  for (int layer = model.first_moe_layer; layer < model.num_layers; ++layer) {
    for (int e = 0; e < model.num_experts; ++e) {
      const ExpertKey key = {layer, e};
      const absl::StatusOr<std::optional<Row>> found = Find(key);
      const Row before = found.ok() ? found->value_or(Row{}) : Row{};
      Row row = {records.HeldSlices(key), records.Identity(key).value_or(""),
                 before.heat};
      if (add_reads) {
        uint64_t& added = added_reads_[size_t(layer) * model.num_experts + e];
        const uint64_t reads = records.NumReads(key);
        row.heat += reads - std::exchange(added, reads);
      }
      if (found.ok() && row == before) continue;
      RETURN_IF_ERROR(FromRocks(batch.Put(RowKey(key), EncodeRow(row))));
    }
  }
  return FromRocks(database_->db->Write(rocksdb::WriteOptions(), &batch));
}

absl::StatusOr<std::optional<uint64_t>> ExpertIndex::Quota() const {
  ASSIGN_OR_RETURN(const std::optional<std::string> text,
                   database_->Get(kQuotaKey));
  if (!text) return std::nullopt;
  std::string_view left = *text;
  uint64_t quota_bytes = 0;
  if (!TakeNumber(left, '\0', &quota_bytes)) {
    return absl::DataLossError(
        fmt::format("expert ledger: \"{}\" is no quota", *text));
  }
  return quota_bytes;
}

absl::Status ExpertIndex::SetQuota(uint64_t quota_bytes) {
  rocksdb::WriteOptions synced;
  synced.sync = true;
  return FromRocks(
      database_->db->Put(synced, kQuotaKey, std::to_string(quota_bytes)));
}

}  // namespace deltafin
