// Input: messages (tests/fuzz/pieces.h) of a byte that says which call, then
// its bytes: GetStorageRequest, SetQuotaRequest, StoredExpert to be removed or
// to be fetched. A node that keeps two experts answers with one of a few
// codes, does what it says it did, and a refusal changes nothing.

#include <algorithm>
#include <memory>
#include <span>
#include <string>

#include "common/base/check.h"
#include "common/base/digest.h"
#include "expert_node/storage_service.h"
#include "tests/fuzz/expert_node/zero_store.h"
#include "tests/fuzz/pieces.h"
#include "tests/fuzz/silence.h"
#include "tests/testing/temp_dir.h"

namespace v1 = deltafin::v1;
using deltafin::ExpertKey;
using deltafin::RecordStore;
using grpc::StatusCode;

namespace {

// Layers 1 to 3, 8 experts of three slices, the last one short.
constexpr deltafin::ExpertShape kShape = {32, 544};
constexpr deltafin::SliceRun kAll = {0, 3};
constexpr uint64_t kAllExperts = 3 * 8;
constexpr int kMaxCalls = 8;

// Made once, as a folder with a ledger takes a while; Reset makes each input
// begin alike.
class Node {
 public:
  Node() {
    // OpenSSL's first caller has its memory for good: this thread, not one
    // that ends.
    const std::string digest = deltafin::Sha256Hex({});
    deltafin::RecordStoreOptions options;
    options.reserve_bytes = 0;
    records_ =
        *RecordStore::Open(folder_.path(), {kShape, 4, 1, 8, digest}, options);
    auto fetching = std::make_unique<deltafin::FetchingStore>(
        *records_, std::make_unique<deltafin::ZeroStore>(kShape),
        deltafin::FetchingStoreOptions());
    deltafin::FetchingStore& source = *fetching;
    tier_ =
        *deltafin::TieredStore::Create(std::move(fetching), {size_t{1} << 20});
    deltafin::LedgerOptions ledger;
    ledger.folder = folder_.path();
    ledger.manifest_digest = digest;
    ledger.interval = absl::Hours(100);
    ledger_ = std::make_unique<deltafin::LedgerKeeper>(ledger, *tier_,
                                                       records_.get());
    experts_ = std::make_unique<deltafin::StoredExperts>(*records_, source,
                                                         *tier_, *ledger_);
    service_ = std::make_unique<deltafin::StorageService>(*experts_);
  }

  void Reset() {
    records_->SetQuota(deltafin::RecordStoreOptions::kNoQuota);
    for (int layer = 1; layer < 4; ++layer) {
      for (int expert = 0; expert < 8; ++expert) {
        const ExpertKey key = {layer, expert};
        const bool wanted = layer == 1 && expert < 2;
        if (wanted && !Holds(key)) CHECK_OK(experts_->Fetch(key));
        if (!wanted && !records_->HeldSlices(key).empty()) {
          CHECK_OK(experts_->Remove(key).status());
        }
      }
    }
  }

  deltafin::StorageService& service() { return *service_; }
  bool Holds(ExpertKey key) const { return records_->Holds(key, kAll); }
  v1::StorageReport Report() {
    v1::StorageReport report;
    CHECK(service_->GetStorage(nullptr, nullptr, &report).ok());
    report.clear_free_bytes();  // others write too
    return report;
  }

 private:
  const deltafin::TempDir folder_;
  std::unique_ptr<RecordStore> records_;
  std::unique_ptr<deltafin::TieredStore> tier_;
  std::unique_ptr<deltafin::LedgerKeeper> ledger_;
  std::unique_ptr<deltafin::StoredExperts> experts_;
  std::unique_ptr<deltafin::StorageService> service_;
};

Node& TheNode() {
  static Node node;  // destroyed at exit, with its folder
  return node;
}

void CheckReport(const v1::StorageReport& report) {
  CHECK(report.all_experts() == kAllExperts);
  CHECK(report.complete_experts() <= report.held_experts());
  CHECK(report.held_experts() <= kAllExperts);
  CHECK(report.removed_experts() <= kAllExperts);
  CHECK(report.held_bytes() ==
        report.complete_experts() * kShape.payload_bytes());
  CHECK(!report.folder().empty());
}

// Returns whether the call was made well.
bool CheckAnswer(const grpc::Status& status, const v1::StorageReport& before,
                 v1::StorageReport report,
                 std::initializer_list<StatusCode> refusals) {
  if (status.ok()) {
    CheckReport(report);
    report.clear_free_bytes();
    report.clear_removed_experts();
    CHECK(TheNode().Report().SerializeAsString() == report.SerializeAsString());
    return true;
  }
  CHECK(std::ranges::find(refusals, status.error_code()) != refusals.end());
  CHECK(!status.error_message().empty());
  CHECK(TheNode().Report().SerializeAsString() == before.SerializeAsString());
  return false;
}

template <typename Request>
bool Parse(std::span<const uint8_t> bytes, Request* request) {
  return request->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

void TryQuota(std::span<const uint8_t> bytes) {
  v1::SetQuotaRequest request;
  if (!Parse(bytes, &request)) return;
  const v1::StorageReport before = TheNode().Report();
  v1::StorageReport report;
  const grpc::Status status =
      TheNode().service().SetQuota(nullptr, &request, &report);
  CHECK(CheckAnswer(status, before, report, {}));
  const uint64_t quota =
      request.unlimited() ? UINT64_MAX : request.quota_bytes();
  CHECK(report.unlimited() == (quota == UINT64_MAX));
  CHECK(report.unlimited() || report.quota_bytes() == quota);
  if (!request.unlimited() && request.remove_coldest()) {
    CHECK(report.held_bytes() <= quota);
    CHECK(before.held_experts() - report.held_experts() ==
          report.removed_experts());
  } else {
    CHECK(report.removed_experts() == 0);
    CHECK(report.held_bytes() == before.held_bytes());
  }
}

bool IsExpert(const v1::StoredExpert& expert) {
  return expert.layer() >= 1 && expert.layer() <= 3 && expert.expert() < 8;
}

ExpertKey KeyOf(const v1::StoredExpert& expert) {
  return {static_cast<int>(expert.layer()), static_cast<int>(expert.expert())};
}

void TryRemove(std::span<const uint8_t> bytes) {
  v1::StoredExpert request;
  if (!Parse(bytes, &request)) return;
  const v1::StorageReport before = TheNode().Report();
  v1::StorageReport report;
  const grpc::Status status =
      TheNode().service().RemoveExpert(nullptr, &request, &report);
  const bool done =
      CheckAnswer(status, before, report, {StatusCode::INVALID_ARGUMENT});
  CHECK(done == IsExpert(request));
  CHECK(!done || !TheNode().Holds(KeyOf(request)));
}

void TryFetch(std::span<const uint8_t> bytes) {
  v1::StoredExpert request;
  if (!Parse(bytes, &request)) return;
  const v1::StorageReport before = TheNode().Report();
  v1::StorageReport report;
  const grpc::Status status =
      TheNode().service().FetchExpert(nullptr, &request, &report);
  const bool done = CheckAnswer(
      status, before, report,
      {StatusCode::INVALID_ARGUMENT, StatusCode::RESOURCE_EXHAUSTED});
  CHECK(done || IsExpert(request) ==
                    (status.error_code() == StatusCode::RESOURCE_EXHAUSTED));
  CHECK(!done || TheNode().Holds(KeyOf(request)));
}

void TryGet(std::span<const uint8_t> bytes) {
  v1::GetStorageRequest request;
  if (!Parse(bytes, &request)) return;
  const v1::StorageReport before = TheNode().Report();
  v1::StorageReport report;
  const grpc::Status status =
      TheNode().service().GetStorage(nullptr, &request, &report);
  CHECK(CheckAnswer(status, before, report, {}));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static const bool silent = deltafin::Silence();
  if (!silent) return 0;
  TheNode().Reset();
  std::span<const uint8_t> rest(bytes, size);
  constexpr void (*kTries[])(std::span<const uint8_t>) = {TryGet, TryQuota,
                                                          TryRemove, TryFetch};
  for (int call = 0; call < kMaxCalls && !rest.empty(); ++call) {
    const auto piece = deltafin::TakePiece(rest);
    if (piece.empty()) continue;
    kTries[piece[0] % std::size(kTries)](piece.subspan(1));
  }
  return 0;
}
