#include "coordinator/cluster/admin_service.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/net/grpc_status.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

constexpr absl::Duration kLookAgain = absl::Milliseconds(250);
// Between two counts of slices that were copied.
constexpr absl::Duration kCountAgain = absl::Seconds(2);
// Each has a thread of the server.
constexpr int kMaxDrains = 16;
constexpr uint64_t kMaxDeadlineMs = uint64_t{1000} * 3600 * 24 * 365;

absl::Time DeadlineOf(const v1::DrainRequest& request) {
  if (request.deadline_ms() == 0) return absl::InfiniteFuture();
  const uint64_t ms = std::min(request.deadline_ms(), kMaxDeadlineMs);
  return absl::Now() + absl::Milliseconds(static_cast<int64_t>(ms));
}

v1::DrainProgress ProgressOf(const DrainStep& step, const DrainFacts& facts) {
  v1::DrainProgress progress;
  progress.set_step(step.sentence);
  progress.set_slices_to_copy(facts.slices_only_here);
  progress.set_slices_copied(static_cast<uint64_t>(
      std::max<int64_t>(0, facts.alone_at_start - facts.slices_only_here)));
  progress.set_done(step.done);
  return progress;
}

}  // namespace

grpc::Status AdminService::GetHealth(grpc::ServerContext*,
                                     const v1::GetHealthRequest*,
                                     v1::ClusterHealth* reply) {
  *reply = registry_.health();
  return grpc::Status::OK;
}

grpc::Status AdminService::GetPlacement(grpc::ServerContext*,
                                        const v1::GetPlacementRequest* request,
                                        v1::PlacementReport* reply) {
  absl::StatusOr<v1::PlacementReport> report =
      registry_.ReportPlacement(*request);
  if (report.ok()) *reply = *std::move(report);
  return ToGrpc(report.status());
}

grpc::Status AdminService::Explain(grpc::ServerContext*,
                                   const v1::ExplainRequest* request,
                                   v1::Explanation* reply) {
  absl::StatusOr<v1::Explanation> explanation = explain_(request->request());
  if (explanation.ok()) *reply = *std::move(explanation);
  return ToGrpc(explanation.status());
}

grpc::Status AdminService::Drain(
    grpc::ServerContext* context, const v1::DrainRequest* request,
    grpc::ServerWriter<v1::DrainProgress>* writer) {
  return ToGrpc(
      RunDrain(*request, {[writer](const v1::DrainProgress& progress) {
                            return writer->Write(progress);
                          },
                          [context] { return context->IsCancelled(); }}));
}

absl::Status AdminService::RunDrain(const v1::DrainRequest& request,
                                    const DrainListener& listener) {
  if (request.undo()) {
    RETURN_IF_ERROR(registry_.EndDrain(request.node()));
    v1::DrainProgress progress;
    progress.set_step("back in service");
    progress.set_done(true);
    listener.write(progress);
    return absl::OkStatus();
  }
  {
    MutexLock lock(mutex_);
    if (num_drains_ >= kMaxDrains) {
      return absl::ResourceExhaustedError(
          fmt::format("{} drains are being waited for", num_drains_));
    }
    ++num_drains_;
  }
  const absl::StatusOr<int> slot = registry_.BeginDrain(request.node());
  const absl::Status status =
      slot.ok() ? WatchDrain(*slot, DeadlineOf(request), listener)
                : slot.status();
  MutexLock lock(mutex_);
  --num_drains_;
  return status;
}

absl::Status AdminService::WatchDrain(int slot, absl::Time deadline,
                                      const DrainListener& listener) {
  DrainStep told;
  absl::Time told_at = absl::InfinitePast();
  while (true) {
    const DrainFacts facts = registry_.drain_facts(slot);
    ASSIGN_OR_RETURN(const DrainStep step, JudgeDrain(facts));
    const bool is_one_more_count = told.is_copying && step.is_copying;
    if (step.sentence != told.sentence &&
        (!is_one_more_count || absl::Now() - told_at >= kCountAgain)) {
      if (!listener.write(ProgressOf(step, facts))) break;
      told = step;
      told_at = absl::Now();
    }
    if (step.done) return absl::OkStatus();
    if (absl::Now() >= deadline) {
      return absl::DeadlineExceededError(fmt::format(
          "{}; it stays out of service: drain it again to go on waiting, or "
          "with --undo to take it back",
          step.sentence));
    }
    if (listener.is_gone()) break;
    if (!PauseDrain()) {
      return absl::UnavailableError(
          "the coordinator ends; the node stays out of service where --state "
          "keeps it");
    }
  }
  return absl::CancelledError("nobody listens any more");
}

bool AdminService::PauseDrain() {
  const absl::Time until = absl::Now() + kLookAgain;
  MutexLock lock(mutex_);
  while (!drains_end_ && absl::Now() < until) {
    changed_.WaitUntil(mutex_, until);
  }
  return !drains_end_;
}

void AdminService::EndDrains() {
  MutexLock lock(mutex_);
  drains_end_ = true;
  changed_.NotifyAll();
}

}  // namespace deltafin
