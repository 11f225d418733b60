#include "tests/testing/http_get.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "common/base/file_io.h"

namespace deltafin::testing {

absl::StatusOr<std::string> HttpExchange(int port, const std::string& request) {
  const FileDescriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address),
              sizeof(address)) != 0 ||
      send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) !=
          static_cast<ssize_t>(request.size())) {
    return absl::UnavailableError("no connection");
  }
  std::string response;
  char buffer[4096];
  while (true) {
    const ssize_t n = recv(fd.get(), buffer, sizeof(buffer), 0);
    if (n <= 0) return response;
    response.append(buffer, static_cast<size_t>(n));
  }
}

absl::StatusOr<std::string> HttpGet(int port, const std::string& path) {
  return HttpExchange(port, "GET " + path +
                                " HTTP/1.1\r\nHost: localhost\r\n"
                                "Connection: close\r\n\r\n");
}

}  // namespace deltafin::testing
