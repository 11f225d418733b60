#include "common/net/keepalive.h"

#include <cstdlib>

namespace deltafin {

Keepalive KeepaliveWithin(absl::Duration bound) {
  return {0.4 * bound, 0.5 * bound};
}

void PollConnectionsInBackground() {
  setenv("GRPC_CLIENT_CHANNEL_BACKUP_POLL_INTERVAL_MS", "200", 0);
}

}  // namespace deltafin
