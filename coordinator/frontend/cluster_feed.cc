#include "coordinator/frontend/cluster_feed.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "common/net/http_routes.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

std::string Event(std::string_view name, std::string_view text) {
  return fmt::format("event: {}\ndata: {}\n\n", name, text);
}

}  // namespace

ClusterFeed::ClusterFeed(const ClusterFeedOptions& options, Texts texts)
    : options_(options), texts_(std::move(texts)), thread_([this] { Run(); }) {}

ClusterFeed::~ClusterFeed() { Shutdown(); }

void ClusterFeed::SendSnapshot(std::shared_ptr<HttpReply> reply) {
  MutexLock lock(mutex_);
  if (ending_) return;  // the reply says so by itself
  waiting_.push_back(std::move(reply));
  changed_.NotifyAll();
}

void ClusterFeed::AddStream(std::shared_ptr<HttpReply> reply) {
  MutexLock lock(mutex_);
  if (ending_ || std::ssize(streams_) >= options_.max_streams) {
    SendHttpError(*reply, 503, "too_many_streams",
                  "too many look at the cluster already; close another page");
    return;
  }
  reply->Begin(200, {{"Content-Type", "text/event-stream"},
                     {"Cache-Control", "no-store"}});
  // The feed drops it at the next event: a client that has gone is rare.
  streams_.push_back({std::move(reply)});
  changed_.NotifyAll();
}

int ClusterFeed::num_streams() const {
  MutexLock lock(mutex_);
  return static_cast<int>(streams_.size());
}

void ClusterFeed::Shutdown() {
  {
    MutexLock lock(mutex_);
    ending_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
  MutexLock lock(mutex_);
  for (const Stream& stream : streams_) stream.reply->End();
  streams_.clear();
  waiting_.clear();
}

void ClusterFeed::Run() {
  absl::Time due = absl::Now();
  int64_t round = 0;
  while (AwaitWork(due)) {
    const bool is_due = absl::Now() >= due;
    Tell(is_due && round % options_.heat_every == 0);
    if (!is_due) continue;
    ++round;
    due = absl::Now() + options_.interval;
  }
}

bool ClusterFeed::AwaitWork(absl::Time due) {
  MutexLock lock(mutex_);
  while (!ending_) {
    if (!waiting_.empty() || HasNew()) return true;
    if (!streams_.empty() && absl::Now() >= due) return true;
    changed_.WaitUntil(mutex_, streams_.empty() ? absl::InfiniteFuture() : due);
  }
  return false;
}

// Texts are made without the lock: they ask others. All streams are told, those
// whose turn it is not as well: an event more does no harm.
void ClusterFeed::Tell(bool with_heat) {
  const std::string snapshot = texts_.snapshot();
  const std::string cluster = Event("cluster", snapshot);
  const std::string heat =
      with_heat || has_new_stream() ? Event("heat", texts_.heat()) : "";
  MutexLock lock(mutex_);
  for (const auto& reply : std::exchange(waiting_, {})) {
    reply->Send(
        200,
        {{"Content-Type", "application/json"}, {"Cache-Control", "no-store"}},
        snapshot);
  }
  std::erase_if(streams_, [&](Stream& stream) {
    if (!heat.empty()) {
      stream.is_new = false;
      if (!stream.reply->Write(heat)) return true;
    }
    return !stream.reply->Write(cluster);
  });
}

bool ClusterFeed::has_new_stream() const {
  MutexLock lock(mutex_);
  return HasNew();
}

bool ClusterFeed::HasNew() const {
  return std::any_of(streams_.begin(), streams_.end(),
                     [](const Stream& stream) { return stream.is_new; });
}

}  // namespace deltafin
