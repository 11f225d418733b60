#include "tests/testing/byte_bridge.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "absl/strings/str_cat.h"

namespace deltafin::testing {
namespace {

// Moves what there is. False at the end of the stream.
bool Copy(int from, int to) {
  char bytes[65536];
  const ssize_t size = read(from, bytes, sizeof(bytes));
  if (size <= 0) return false;
  for (ssize_t sent = 0; sent < size;) {
    const ssize_t part =
        send(to, bytes + sent, static_cast<size_t>(size - sent), MSG_NOSIGNAL);
    if (part <= 0) return false;
    sent += part;
  }
  return true;
}

void Bridge(int listener, int far) {
  const int near = accept(listener, nullptr, nullptr);
  if (near < 0) return;
  while (true) {
    pollfd sockets[] = {{near, POLLIN, 0}, {far, POLLIN, 0}};
    if (poll(sockets, 2, -1) < 0) break;
    if (sockets[0].revents != 0 && !Copy(near, far)) break;
    if (sockets[1].revents != 0 && !Copy(far, near)) break;
  }
  close(near);
}

}  // namespace

struct ByteBridge::Impl {
  int listener = -1;
  int far = -1;
  std::string address;
  std::thread thread;
};

ByteBridge::ByteBridge() : impl_(std::make_unique<Impl>()) {}

absl::StatusOr<std::unique_ptr<ByteBridge>> ByteBridge::Create(int socket_fd) {
  std::unique_ptr<ByteBridge> bridge(new ByteBridge());
  Impl& impl = *bridge->impl_;
  impl.far = socket_fd;
  fcntl(impl.far, F_SETFL, fcntl(impl.far, F_GETFL) & ~O_NONBLOCK);
  impl.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(impl.listener, generic, size) != 0 ||
      listen(impl.listener, 1) != 0 ||
      getsockname(impl.listener, generic, &size) != 0) {
    return absl::UnavailableError("no port for a bridge");
  }
  impl.address = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  impl.thread = std::thread(Bridge, impl.listener, impl.far);
  return bridge;
}

ByteBridge::~ByteBridge() {
  shutdown(impl_->listener, SHUT_RDWR);  // ends accept
  shutdown(impl_->far, SHUT_RDWR);       // ends the copying
  if (impl_->thread.joinable()) impl_->thread.join();
  close(impl_->listener);
  close(impl_->far);
}

const std::string& ByteBridge::address() const { return impl_->address; }

}  // namespace deltafin::testing
