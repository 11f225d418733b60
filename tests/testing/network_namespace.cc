#include "tests/testing/network_namespace.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "tests/testing/process.h"

namespace deltafin::testing {
namespace {

namespace fs = std::filesystem;

constexpr char kFolder[] = "/run/netns";
constexpr char kIp[] = "/sbin/ip";
constexpr absl::Duration kIpTimeout = absl::Seconds(20);

absl::Status RunIp(const std::vector<std::string>& arguments,
                   const std::string& lines = "") {
  std::vector<std::string> argv{kIp};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  ASSIGN_OR_RETURN(const ProcessResult result,
                   RunProcess(argv, kIpTimeout, {.stdin_text = lines}));
  if (result.exit_code == 0) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("ip: exit code ", result.exit_code, ": ", result.err));
}

// Namespaces of test programs that are no more.
void RemoveLeftovers() {
  std::error_code error;
  std::vector<std::string> names;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(kFolder, error)) {
    names.push_back(entry.path().filename().string());
  }
  for (const std::string& name : names) {
    int pid = 0;
    if (std::sscanf(name.c_str(), "dfbox-%d-", &pid) == 1 &&
        kill(pid, 0) != 0 && errno == ESRCH) {
      RunIp({"netns", "del", name}).IgnoreError();
    }
  }
}

sockaddr_in Ipv4(const std::string& host, int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, host.c_str(), &address.sin_addr);
  return address;
}

// `use` is bind or connect.
template <typename Use>
int OpenSocket(const std::string& host, int port, Use use) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const sockaddr_in address = Ipv4(host, port);
  if (use(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) ==
      0) {
    return fd;
  }
  close(fd);
  return -1;
}

absl::Status TryOnce() {
  if (geteuid() != 0) {
    return absl::FailedPreconditionError("network namespaces need root");
  }
  if (access(kIp, X_OK) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(kIp, " is missing; install iproute2"));
  }
  const auto space = NetworkNamespace::Create("probe");
  if (!space.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("this machine gives no network namespaces: ",
                     space.status().message()));
  }
  const absl::Status veth = (*space)->Ip(
      "link add v0 type veth peer name v1\nlink add br0 type bridge\n");
  if (!veth.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("this machine gives no virtual links: ", veth.message()));
  }
  const absl::StatusOr<int> tun = (*space)->OpenInside(
      [] { return open("/dev/net/tun", O_RDWR | O_CLOEXEC); });
  if (!tun.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("this machine gives no TUN: ", tun.status().message()));
  }
  close(*tun);
  return absl::OkStatus();
}

}  // namespace

absl::Status NetworkNamespace::Possible() {
  static const absl::Status* const possible = new absl::Status(TryOnce());
  return *possible;
}

absl::StatusOr<std::unique_ptr<NetworkNamespace>> NetworkNamespace::Create(
    const std::string& name) {
  static std::once_flag once;
  std::call_once(once, RemoveLeftovers);
  std::unique_ptr<NetworkNamespace> space(
      new NetworkNamespace(absl::StrCat("dfbox-", getpid(), "-", name)));
  RETURN_IF_ERROR(RunIp({"netns", "add", space->name_}));
  RETURN_IF_ERROR(space->Ip("link set lo up\n"));
  return space;
}

NetworkNamespace::~NetworkNamespace() {
  RunIp({"netns", "del", name_}).IgnoreError();
}

std::string NetworkNamespace::path() const {
  return absl::StrCat(kFolder, "/", name_);
}

absl::Status NetworkNamespace::Ip(const std::string& lines) const {
  return RunIp({"-n", name_, "-batch", "-"}, lines);
}

absl::StatusOr<int> NetworkNamespace::OpenInside(
    const std::function<int()>& open_inside) const {
  int fd = -1;
  int error = 0;
  std::thread thread([&] {  // its namespace ends with it
    const int space = open(path().c_str(), O_RDONLY | O_CLOEXEC);
    if (space >= 0 && setns(space, CLONE_NEWNET) == 0) fd = open_inside();
    error = errno;
    if (space >= 0) close(space);
  });
  thread.join();
  if (fd >= 0) return fd;
  return absl::UnavailableError(
      absl::StrCat("in namespace ", name_, ": ", std::strerror(error)));
}

absl::StatusOr<int> NetworkNamespace::Listen(const std::string& host,
                                             int port) const {
  return OpenInside([&] {
    const int fd = OpenSocket(host, port, bind);
    return fd >= 0 && listen(fd, 16) == 0 ? fd : -1;
  });
}

absl::StatusOr<int> NetworkNamespace::Connect(const std::string& host,
                                              int port) const {
  return OpenInside([&] { return OpenSocket(host, port, connect); });
}

}  // namespace deltafin::testing
