#include "expert_node/storage/expert_index.h"

#include <charconv>
#include <cmath>
#include <cstdio>
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

// Keys and values, all of them text:
//   model              digest of the model's manifest
//   quota              bytes
//   drive_rate         bytes a second; also source_rate
//   now                HeatPage::now
//   heat/LLLL/EEEEE    "HEAT SLICES"
//   held/LLLL/EEEEE    "SLICES IDENTITY", "-" for no identity
// SLICES is a mask in hexadecimal.
constexpr char kModelKey[] = "model";
constexpr char kQuotaKey[] = "quota";
constexpr char kDriveRateKey[] = "drive_rate";
constexpr char kSourceRateKey[] = "source_rate";
constexpr char kNowKey[] = "now";
constexpr char kHeat[] = "heat";
constexpr char kHeld[] = "held";

// More half lives than any program runs through.
constexpr double kMaxNow = 1e15;

absl::Status FromRocks(const rocksdb::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const std::string message = "expert ledger: " + status.ToString();
  if (status.IsNotFound()) return absl::NotFoundError(message);
  if (status.IsCorruption() || status.IsInvalidArgument()) {
    return absl::DataLossError(message);
  }
  if (status.IsPathNotFound()) return absl::DataLossError(message);
  if (status.IsNoSpace()) return absl::ResourceExhaustedError(message);
  return absl::UnavailableError(message);
}

rocksdb::Options RocksOptions() {
  rocksdb::Options options;
  options.create_if_missing = true;
  // 82,432 experts with two rows of some 50 bytes: small buffers, few files.
  options.write_buffer_size = size_t{4} << 20;
  options.max_open_files = 64;
  options.keep_log_file_num = 1;
  options.info_log_level = rocksdb::WARN_LEVEL;
  options.compression = rocksdb::kNoCompression;
  return options;
}

std::string RowKey(const char* kind, ExpertKey key) {
  return fmt::format("{}/{:04d}/{:05d}", kind, key.layer, key.expert);
}

template <typename Number, typename... Base>
bool ParseAll(std::string_view text, Number* number, Base... base) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] =
      std::from_chars(text.data(), end, *number, base...);
  return error == std::errc() && stop == end;
}

// Splits "A B" in two.
bool Split(std::string_view text, std::string_view* a, std::string_view* b) {
  const size_t space = text.find(' ');
  if (space == std::string_view::npos) return false;
  *a = text.substr(0, space);
  *b = text.substr(space + 1);
  return true;
}

bool ParseRowKey(std::string_view text, std::string* kind, ExpertKey* key) {
  if (text.size() != 15 || text[4] != '/' || text[9] != '/') return false;
  *kind = text.substr(0, 4);
  return ParseAll(text.substr(5, 4), &key->layer) &&
         ParseAll(text.substr(10, 5), &key->expert);
}

bool ParseHeat(std::string_view value, ExpertUse* use) {
  std::string_view heat, slices;
  return Split(value, &heat, &slices) && ParseAll(heat, &use->heat) &&
         ParseAll(slices, &use->slices, 16);
}

bool ParseHeld(std::string_view value, LedgerContents::Held* held) {
  std::string_view slices, identity;
  if (!Split(value, &slices, &identity)) return false;
  if (identity != "-") held->identity = identity;
  return ParseAll(slices, &held->slices, 16);
}

// False for a row that nobody wrote like this.
bool AddRow(std::string_view key, std::string_view value,
            LedgerContents* contents) {
  if (key == kModelKey) {
    contents->manifest_digest = value;
    return true;
  }
  if (key == kQuotaKey)
    return ParseAll(value, &contents->quota_bytes.emplace());
  if (key == kDriveRateKey) return ParseAll(value, &contents->rates.drive);
  if (key == kSourceRateKey) return ParseAll(value, &contents->rates.source);
  if (key == kNowKey) return ParseAll(value, &contents->heat.now);
  std::string kind;
  ExpertKey expert;
  if (!ParseRowKey(key, &kind, &expert)) return false;
  if (kind == kHeld) return ParseHeld(value, &contents->held[expert]);
  contents->heat.uses.push_back({expert});
  return kind == kHeat && ParseHeat(value, &contents->heat.uses.back());
}

bool IsHeatPossible(const HeatPage& heat) {
  if (!(heat.now >= 0 && heat.now <= kMaxNow)) return false;
  for (const ExpertUse& use : heat.uses) {
    if (!std::isfinite(use.heat) || use.heat > heat.now + 64) return false;
  }
  return true;
}

absl::StatusOr<LedgerContents> ReadAll(rocksdb::DB& db) {
  LedgerContents contents;
  const std::unique_ptr<rocksdb::Iterator> row(
      db.NewIterator(rocksdb::ReadOptions()));
  for (row->SeekToFirst(); row->Valid(); row->Next()) {
    const auto text = [](const rocksdb::Slice& slice) {
      return std::string_view(slice.data(), slice.size());
    };
    if (!AddRow(text(row->key()), text(row->value()), &contents)) {
      return absl::DataLossError(fmt::format("expert ledger: \"{}\" is no row",
                                             row->key().ToString()));
    }
  }
  RETURN_IF_ERROR(FromRocks(row->status()));
  if (!IsHeatPossible(contents.heat)) {
    return absl::DataLossError("expert ledger: a heat that cannot be");
  }
  return contents;
}

std::string PathOf(const std::string& folder) { return folder + "/ledger"; }

void DeleteLedger(const std::string& folder) {
  std::error_code error;  // what cannot be deleted cannot be opened either
  std::filesystem::remove_all(PathOf(folder), error);
}

}  // namespace

struct ExpertIndex::Database {
  std::unique_ptr<rocksdb::DB> db;
  LedgerContents contents;

  static absl::StatusOr<Database> Open(const std::string& folder) {
    rocksdb::DB* db = nullptr;
    RETURN_IF_ERROR(
        FromRocks(rocksdb::DB::Open(RocksOptions(), PathOf(folder), &db)));
    Database opened{std::unique_ptr<rocksdb::DB>(db), {}};
    ASSIGN_OR_RETURN(opened.contents, ReadAll(*db));
    return opened;
  }

  absl::Status Write(rocksdb::WriteBatch& batch) {
    return FromRocks(db->Write(rocksdb::WriteOptions(), &batch));
  }

  // Makes the ledger that of `digest`, with `contents`' quota and heat.
  absl::Status BeginAnew(const std::string& digest) {
    rocksdb::WriteBatch batch;
    batch.DeleteRange(kHeat, "heau");
    batch.DeleteRange(kHeld, "hele");
    batch.Delete(kNowKey);
    batch.Put(kModelKey, digest);
    const std::optional<uint64_t> quota = contents.quota_bytes;
    contents = LedgerContents{digest, quota, contents.rates, {}, {}};
    return Write(batch);
  }
};

ExpertIndex::ExpertIndex(std::unique_ptr<Database> database,
                         LedgerContents found)
    : database_(std::move(database)),
      found_(std::move(found)),
      written_(found_.held) {}

ExpertIndex::~ExpertIndex() = default;

absl::StatusOr<std::unique_ptr<ExpertIndex>> ExpertIndex::Open(
    const std::string& folder, const std::string& manifest_digest) {
  absl::StatusOr<Database> opened = Database::Open(folder);
  if (absl::IsDataLoss(opened.status())) {
    spdlog::warn("{}: {}; the ledger begins anew, without heat and quota",
                 PathOf(folder), opened.status().ToString());
    DeleteLedger(folder);
    opened = Database::Open(folder);
  }
  RETURN_IF_ERROR(opened.status());
  if (opened->contents.manifest_digest != manifest_digest) {
    RETURN_IF_ERROR(opened->BeginAnew(manifest_digest));
  }
  LedgerContents found = std::move(opened->contents);
  return std::unique_ptr<ExpertIndex>(new ExpertIndex(
      std::make_unique<Database>(*std::move(opened)), std::move(found)));
}

absl::StatusOr<std::unique_ptr<ExpertIndex>> ExpertIndex::Rebuild(
    const std::string& folder, const std::string& manifest_digest,
    const RecordStore* records) {
  LedgerContents kept;
  {
    absl::StatusOr<Database> before = Database::Open(folder);
    if (before.ok()) kept = std::move(before->contents);
  }
  DeleteLedger(folder);
  {
    ASSIGN_OR_RETURN(const std::unique_ptr<ExpertIndex> anew,
                     Open(folder, manifest_digest));
    if (kept.quota_bytes) RETURN_IF_ERROR(anew->SetQuota(kept.quota_bytes));
    if (kept.manifest_digest == manifest_digest) {
      RETURN_IF_ERROR(anew->AddHeat(kept.heat));
    }
    if (records != nullptr) RETURN_IF_ERROR(anew->CopyHeld(*records));
  }
  return Open(folder, manifest_digest);
}

absl::StatusOr<LedgerContents> ExpertIndex::Read(const std::string& folder) {
  std::error_code error;
  if (!std::filesystem::exists(PathOf(folder), error)) {
    return absl::NotFoundError(PathOf(folder) + ": there is no ledger yet");
  }
  rocksdb::DB* db = nullptr;
  RETURN_IF_ERROR(FromRocks(
      rocksdb::DB::OpenForReadOnly(RocksOptions(), PathOf(folder), &db)));
  const std::unique_ptr<rocksdb::DB> owned(db);
  return ReadAll(*db);
}

absl::Status ExpertIndex::SetQuota(std::optional<uint64_t> quota_bytes) {
  rocksdb::WriteOptions synced;
  synced.sync = true;
  rocksdb::DB& db = *database_->db;
  return FromRocks(quota_bytes
                       ? db.Put(synced, kQuotaKey, std::to_string(*quota_bytes))
                       : db.Delete(synced, kQuotaKey));
}

absl::Status ExpertIndex::SetRates(const LedgerRates& rates) {
  rocksdb::WriteBatch batch;
  for (const auto& [key, rate] : {std::pair(kDriveRateKey, rates.drive),
                                  std::pair(kSourceRateKey, rates.source)}) {
    if (rate > 0) batch.Put(key, fmt::format("{:.0f}", rate));
  }
  return database_->Write(batch);
}

absl::Status ExpertIndex::AddHeat(const HeatPage& page) {
  if (page.uses.empty()) return absl::OkStatus();
  rocksdb::WriteBatch batch;
  batch.Put(kNowKey, fmt::format("{}", page.now));
  for (const ExpertUse& use : page.uses) {
    batch.Put(RowKey(kHeat, use.expert),
              fmt::format("{} {:x}", use.heat, use.slices));
  }
  return database_->Write(batch);
}

absl::Status ExpertIndex::CopyHeld(const RecordStore& records) {
  const RecordModel& model = records.model();
  rocksdb::WriteBatch batch;
  MutexLock lock(mutex_);
  std::map<ExpertKey, LedgerContents::Held> held;
  for (int layer = model.first_moe_layer; layer < model.num_layers; ++layer) {
    for (int expert = 0; expert < model.num_experts; ++expert) {
      const ExpertKey key = {layer, expert};
      uint64_t slices = 0;
      for (const SliceRun run : records.HeldSlices(key)) {
        for (int i = 0; i < run.count; ++i)
          slices |= uint64_t{1} << (run.first + i);
      }
      const auto before = written_.find(key);
      if (slices == 0) {
        if (before != written_.end()) batch.Delete(RowKey(kHeld, key));
        continue;
      }
      LedgerContents::Held now = {slices, records.Identity(key).value_or("")};
      if (before == written_.end() || before->second != now) {
        batch.Put(RowKey(kHeld, key),
                  fmt::format("{:x} {}", now.slices,
                              now.identity.empty() ? "-" : now.identity));
      }
      held.emplace_hint(held.end(), key, std::move(now));
    }
  }
  if (batch.Count() == 0) return absl::OkStatus();
  RETURN_IF_ERROR(database_->Write(batch));
  written_ = std::move(held);
  return absl::OkStatus();
}

}  // namespace deltafin
