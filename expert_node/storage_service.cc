#include "expert_node/storage_service.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "common/net/grpc_status.h"

namespace deltafin {
namespace {

// Numbers that are too large for any model stay so.
ExpertKey KeyOf(const v1::StoredExpert& expert) {
  constexpr uint32_t kMost = std::numeric_limits<int32_t>::max();
  return {static_cast<int32_t>(std::min(expert.layer(), kMost)),
          static_cast<int32_t>(std::min(expert.expert(), kMost))};
}

}  // namespace

grpc::Status StorageService::Answer(const absl::StatusOr<int>& removed,
                                    v1::StorageReport* reply) const {
  if (!removed.ok()) return ToGrpc(removed.status());
  const RecordStore& records = experts_.records();
  const RecordModel& model = records.model();
  const RecordStoreStats stats = records.stats();
  reply->set_held_bytes(stats.held_bytes);
  reply->set_held_experts(stats.held_experts);
  reply->set_complete_experts(stats.complete_experts);
  reply->set_all_experts(uint64_t(model.num_layers - model.first_moe_layer) *
                         model.num_experts);
  reply->set_unlimited(stats.quota_bytes == RecordStoreOptions::kNoQuota);
  if (!reply->unlimited()) reply->set_quota_bytes(stats.quota_bytes);
  reply->set_free_bytes(stats.free_bytes);
  reply->set_removed_experts(*removed);
  reply->set_folder(records.folder());
  reply->set_program(program_);
  return grpc::Status::OK;
}

grpc::Status StorageService::GetStorage(grpc::ServerContext* /*context*/,
                                        const v1::GetStorageRequest*,
                                        v1::StorageReport* reply) {
  return Answer(0, reply);
}

grpc::Status StorageService::SetQuota(grpc::ServerContext* /*context*/,
                                      const v1::SetQuotaRequest* request,
                                      v1::StorageReport* reply) {
  std::optional<uint64_t> quota;
  if (!request->unlimited()) quota = request->quota_bytes();
  return Answer(
      experts_.SetQuota(quota, request->remove_coldest()
                                   ? StoredExperts::Surplus::kRemoveColdest
                                   : StoredExperts::Surplus::kKeep),
      reply);
}

grpc::Status StorageService::RemoveExpert(grpc::ServerContext* /*context*/,
                                          const v1::StoredExpert* request,
                                          v1::StorageReport* reply) {
  return Answer(experts_.Remove(KeyOf(*request)), reply);
}

grpc::Status StorageService::FetchExpert(grpc::ServerContext* /*context*/,
                                         const v1::StoredExpert* request,
                                         v1::StorageReport* reply) {
  const absl::Status fetched = experts_.Fetch(KeyOf(*request));
  return fetched.ok() ? Answer(0, reply) : ToGrpc(fetched);
}

}  // namespace deltafin
