// Input: a byte that says which question, then its bytes: GetHealthRequest,
// DrainRequest, GetPlacementRequest or ExplainRequest of whoever looks after
// the cluster, GetModelFilesRequest of a node. The service answers with one of
// a few codes, an answer is within the cluster's bounds, and only a drain that
// was accepted changes anything.

#include <algorithm>
#include <span>
#include <string>

#include "common/base/check.h"
#include "common/base/digest.h"
#include "common/base/file_io.h"
#include "common/net/grpc_status.h"
#include "coordinator/cluster/admin_service.h"
#include "coordinator/cluster/model_files.h"
#include "coordinator/engine/request_history.h"
#include "tests/fuzz/coordinator/fuzz_registry.h"
#include "tests/fuzz/silence.h"
#include "tests/testing/temp_dir.h"

namespace v1 = deltafin::v1;
using deltafin::AdminService;
using deltafin::NodeRegistry;
using grpc::StatusCode;

namespace {

void CheckRefusal(const grpc::Status& status,
                  std::initializer_list<StatusCode> codes) {
  CHECK(std::ranges::find(codes, status.error_code()) != codes.end());
  CHECK(!status.error_message().empty());
  CHECK(status.error_message().size() < 4096);
}

template <typename Request>
bool Parse(std::span<const uint8_t> bytes, Request* request) {
  return request->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

// Members that are out of service.
int NumDraining(const NodeRegistry& registry) {
  const v1::ClusterHealth health = registry.health();
  return static_cast<int>(std::ranges::count_if(
      health.nodes(),
      [](const v1::NodeHealth& node) { return node.state() == "draining"; }));
}

void TryHealth(AdminService& service, NodeRegistry&,
               std::span<const uint8_t> bytes) {
  v1::GetHealthRequest request;
  v1::ClusterHealth reply;
  if (!Parse(bytes, &request)) return;
  CHECK(service.GetHealth(nullptr, &request, &reply).ok());
  CHECK(reply.nodes_size() == deltafin::kFuzzMembers);
}

// Whoever asks goes away with the first word of progress.
void TryDrain(AdminService& service, NodeRegistry& registry,
              std::span<const uint8_t> bytes) {
  v1::DrainRequest request;
  if (!Parse(bytes, &request)) return;
  int told = 0;
  const absl::Status status =
      service.RunDrain(request, {[&told](const v1::DrainProgress& progress) {
                                   ++told;
                                   CHECK(!progress.step().empty());
                                   return false;
                                 },
                                 [] { return false; }});
  registry.Tick();
  const bool drains = absl::IsCancelled(status);
  CHECK(told == (drains || status.ok() ? 1 : 0));
  CHECK(NumDraining(registry) == (drains ? 1 : 0));
  if (drains || status.ok()) {
    CHECK(status.ok() == request.undo());
    return;
  }
  CheckRefusal(deltafin::ToGrpc(status),
               {StatusCode::NOT_FOUND, StatusCode::INVALID_ARGUMENT,
                StatusCode::FAILED_PRECONDITION});
}

void TryPlacement(AdminService& service, NodeRegistry& registry,
                  std::span<const uint8_t> bytes) {
  v1::GetPlacementRequest request;
  v1::PlacementReport report;
  if (!Parse(bytes, &request)) return;
  const uint64_t epoch = registry.placement()->epoch();
  const grpc::Status status = service.GetPlacement(nullptr, &request, &report);
  CHECK(registry.placement()->epoch() == epoch);
  if (!status.ok()) {
    CheckRefusal(status, {StatusCode::NOT_FOUND, StatusCode::INVALID_ARGUMENT});
    return;
  }
  CHECK(report.shares_size() <= deltafin::kFuzzMembers);
  CHECK(report.copies() >= 1);
  CHECK(request.one_expert() || report.runs().empty());
  for (const v1::PlacedRun& run : report.runs()) {
    CHECK(run.num_slices() >= 1 && run.first_slice() + run.num_slices() <= 4);
    CHECK(run.copy() < report.copies());
  }
}

void TryExplain(AdminService& service, NodeRegistry&,
                std::span<const uint8_t> bytes) {
  v1::ExplainRequest request;
  v1::Explanation reply;
  if (!Parse(bytes, &request)) return;
  const grpc::Status status = service.Explain(nullptr, &request, &reply);
  if (status.ok()) {
    CHECK(reply.request() == (request.request() == 0 ? 8 : request.request()));
  } else {
    CheckRefusal(status, {StatusCode::NOT_FOUND});
  }
}

// A folder of released files whose shard is a header alone.
const deltafin::ModelFiles& Files() {
  static const deltafin::TempDir& dir = *new deltafin::TempDir;
  static const deltafin::ModelFiles* const files = [] {
    deltafin::Manifest manifest;
    const auto add = [&manifest](const std::string& name,
                                 const std::string& text) {
      CHECK_OK(deltafin::WriteFileAtomically(dir.File(name), text));
      const auto* data = reinterpret_cast<const uint8_t*>(text.data());
      manifest.entries.push_back(
          {name, text.size(), deltafin::Sha256Hex({data, text.size()})});
    };
    add("config.json", "{}");
    add("model-1.safetensors", std::string("\2\0\0\0\0\0\0\0{}", 10));
    add("model.safetensors.index.json", "{}");
    return new deltafin::ModelFiles(dir.path(), manifest);
  }();
  return *files;
}

void TryModelFiles(AdminService&, NodeRegistry&,
                   std::span<const uint8_t> bytes) {
  v1::GetModelFilesRequest request;
  if (!Parse(bytes, &request)) return;
  std::vector<std::string> names;
  CHECK_OK(Files().Send(request.with_shards(),
                        [&names](const v1::ModelFilePiece& piece) {
                          CHECK(piece.data().size() == piece.file_bytes());
                          names.push_back(piece.name());
                          return true;
                        }));
  CHECK(names.size() == (request.with_shards() ? 4 : 2));
  CHECK(names[0] == "manifest" && names[1] == "config.json");
}

absl::StatusOr<v1::Explanation> Explain(uint64_t request) {
  static const deltafin::RequestHistory* const history = [] {
    auto* requests = new deltafin::RequestHistory;
    for (const uint64_t id : {7, 8}) {
      v1::Explanation explanation;
      explanation.set_request(id);
      requests->Add(explanation);
    }
    return requests;
  }();
  return history->Find(request);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static const bool silent = deltafin::Silence();
  if (size == 0 || !silent) return 0;
  deltafin::ManualClock clock;
  const auto registry = deltafin::MakeFuzzRegistry(clock);
  AdminService service(*registry, Explain);
  constexpr void (*kTries[])(AdminService&, NodeRegistry&,
                             std::span<const uint8_t>) = {
      TryHealth, TryDrain, TryPlacement, TryExplain, TryModelFiles};
  kTries[bytes[0] % std::size(kTries)](service, *registry,
                                       {bytes + 1, size - 1});
  return 0;
}
