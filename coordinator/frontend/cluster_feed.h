// coordinator/frontend/cluster_feed.h
//
// Tells whoever looks at a cluster how it is: GET /api/cluster, once, and GET
// /api/cluster/events, a stream of server-sent events ("cluster" twice a
// second, "heat" every two seconds). Works only while somebody looks.
// Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/net/http_message.h"

namespace deltafin {

struct ClusterFeedOptions {
  absl::Duration interval = absl::Milliseconds(500);
  int heat_every = 4;  // intervals
  // Streams at once; further ones get status 503.
  int max_streams = 64;
};

class ClusterFeed {
 public:
  // JSON texts without line breaks, as ClusterReport makes them. Called by the
  // feed's thread alone; must outlive it.
  struct Texts {
    std::function<std::string()> snapshot;
    std::function<std::string()> heat;
  };

  ClusterFeed(const ClusterFeedOptions& options, Texts texts);
  ~ClusterFeed();  // Shutdown
  ClusterFeed(const ClusterFeed&) = delete;
  ClusterFeed& operator=(const ClusterFeed&) = delete;

  // Handlers of the two paths. Neither blocks.
  void SendSnapshot(std::shared_ptr<HttpReply> reply);
  void AddStream(std::shared_ptr<HttpReply> reply);

  int num_streams() const;
  // Ends the streams and the thread. Idempotent.
  void Shutdown();

 private:
  // A reply has its Begin behind it, and gets the heat with its first event.
  struct Stream {
    std::shared_ptr<HttpReply> reply;
    bool is_new = true;
  };
  using Streams = std::vector<Stream>;

  void Run();
  bool has_new_stream() const;
  bool HasNew() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits until there is something to tell.
  bool AwaitWork(absl::Time due);
  void Tell(bool with_heat);

  const ClusterFeedOptions options_;
  const Texts texts_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<std::shared_ptr<HttpReply>> waiting_ ABSL_GUARDED_BY(mutex_);
  Streams streams_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace deltafin
