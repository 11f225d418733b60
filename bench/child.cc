#include "bench/child.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/check.h"

namespace deltafin::bench {

Child::Child(const std::function<void(std::function<void(int)>)>& serve) {
  int ports[2];
  CHECK(pipe(ports) == 0);
  pid_ = fork();
  CHECK(pid_ >= 0);
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(ports[0]);
    serve([&](int port) {
      CHECK(write(ports[1], &port, sizeof(port)) == sizeof(port));
    });
    _exit(0);
  }
  close(ports[1]);
  CHECK(read(ports[0], &port_, sizeof(port_)) == sizeof(port_));
  close(ports[0]);
}

Child::~Child() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

}  // namespace deltafin::bench
