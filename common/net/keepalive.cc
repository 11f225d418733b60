#include "common/net/keepalive.h"

#include <cstdlib>

namespace deltafin {

void PollConnectionsInBackground() {
  setenv("GRPC_CLIENT_CHANNEL_BACKUP_POLL_INTERVAL_MS", "200", 0);
}

}  // namespace deltafin
