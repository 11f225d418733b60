// lan_relay: cables between network namespaces, in user space.
//
//   lan_relay --control PATH [--seed N] NAMESPACE=IPV4 ...
//
// Opens a TUN named "lan0" in each namespace (/run/netns/NAMESPACE) and carries
// packets between them: out of a namespace over its cable to a switch that
// costs nothing, and over the cable of the namespace that has the address. Each
// cable has a delay, a rate with a bounded queue, loss and reordering, and can
// be pulled. Commands come as messages on the Unix socket at PATH
// (SOCK_SEQPACKET), each answered by one:
//
//   set INDEX key=value ...   delay_us rate (bit/s, 0: any) queue_bytes
//                             loss reorder (percent) down (0, 1)  -> "ok"
//   stats INDEX               -> "up_packets=.. up_bytes=.. down_packets=..
//                                down_bytes=.. lost=.. overflowed=.. cut=.."
//
// Prints "ready" when the TUNs exist; addresses and routes are given to them by
// whoever started it. Ends with its parent, or by a signal. One thread; TUNs
// have no offload here, so a packet costs a read and a write: at an MTU of
// 1500, a 1 Gbit/s cable takes most of a core; at 9000, the default, a fifth.

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/testing/lan_cable.h"

namespace deltafin::testing {
namespace {

constexpr int kMostPacketsAtOnce = 64;
constexpr size_t kLargestPacket = 65535;
constexpr size_t kIpv4HeaderBytes = 20;

[[noreturn]] void Die(const std::string& what) {
  std::fprintf(stderr, "lan_relay: %s: %s\n", what.c_str(),
               std::strerror(errno));
  std::exit(1);
}

Nanoseconds Now() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return Nanoseconds{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// A TUN of the namespace: it belongs to the one in which it is opened.
int OpenTun(const std::string& name) {
  const std::string path = "/run/netns/" + name;
  const int space = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (space < 0 || setns(space, CLONE_NEWNET) != 0) Die(path);
  close(space);
  const int tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (tun < 0) Die("/dev/net/tun");
  ifreq request = {};
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  std::strcpy(request.ifr_name, "lan0");
  if (ioctl(tun, TUNSETIFF, &request) != 0) Die("TUNSETIFF in " + name);
  return tun;
}

int Listen(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) Die("control path too long");
  std::strcpy(address.sun_path, path.c_str());
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0 ||
      bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(fd, 4) != 0) {
    Die(path);
  }
  return fd;
}

// A packet on its way.
struct Packet {
  Nanoseconds due = 0;
  uint64_t number = 0;  // keeps those due at once in order
  int to = 0;
  bool at_switch = false;  // what it is due at: the switch, or its end
  std::vector<char> bytes;
};

struct LaterFirst {
  bool operator()(const std::unique_ptr<Packet>& a,
                  const std::unique_ptr<Packet>& b) const {
    return a->due != b->due ? a->due > b->due : a->number > b->number;
  }
};

class Relay {
 public:
  Relay(int listener, uint64_t seed) : listener_(listener), random_(seed) {}

  void AddPort(const std::string& name, in_addr_t address) {
    port_of_[address] = static_cast<int>(ports_.size());
    ports_.push_back({OpenTun(name), LanCable()});
  }

  [[noreturn]] void Run() {
    while (true) {
      Await();
      for (size_t i = 0; i < ports_.size(); ++i) Take(static_cast<int>(i));
      MoveDue();
    }
  }

 private:
  struct Port {
    int tun = -1;
    LanCable cable;
  };

  void Await() {
    std::vector<pollfd> fds{{listener_, POLLIN, 0}, {client_, POLLIN, 0}};
    for (const Port& port : ports_) fds.push_back({port.tun, POLLIN, 0});
    const Nanoseconds wait =
        under_way_.empty()
            ? 1'000'000'000
            : std::max<Nanoseconds>(under_way_.top()->due - Now(), 0);
    const timespec timeout = {wait / 1'000'000'000, wait % 1'000'000'000};
    if (ppoll(fds.data(), fds.size(), &timeout, nullptr) < 0) return;
    if (fds[0].revents != 0) {
      close(client_);
      client_ = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    } else if (fds[1].revents != 0) {
      Obey();
    }
  }

  void Obey() {
    std::array<char, 1024> message;
    const ssize_t size = recv(client_, message.data(), message.size(), 0);
    if (size <= 0) {
      close(client_);
      client_ = -1;
      return;
    }
    const std::string answer =
        Answer(std::string(message.data(), static_cast<size_t>(size)));
    send(client_, answer.data(), answer.size(), MSG_NOSIGNAL);
  }

  std::string Answer(const std::string& command) {
    unsigned port = 0;
    int rest = 0;
    std::array<char, 8> verb{};
    if (std::sscanf(command.c_str(), "%7s %u%n", verb.data(), &port, &rest) !=
            2 ||
        port >= ports_.size()) {
      return "error: want set INDEX key=value ..., or stats INDEX";
    }
    LanCable& cable = ports_[port].cable;
    if (std::strcmp(verb.data(), "stats") == 0) return cable.Stats();
    if (std::strcmp(verb.data(), "set") != 0) return "error: unknown command";
    return cable.Set(command.substr(rest)) ? "ok" : "error: bad key or value";
  }

  // From a namespace onto its cable.
  void Take(int from) {
    Port& port = ports_[from];
    for (int i = 0; i < kMostPacketsAtOnce; ++i) {
      const ssize_t size = read(port.tun, buffer_.data(), buffer_.size());
      if (size <= 0) return;
      const int to = PortOf(static_cast<size_t>(size));
      if (to < 0) continue;
      const std::optional<Nanoseconds> due =
          port.cable.Up(Now(), static_cast<size_t>(size), random_);
      if (!due.has_value()) continue;
      auto packet = std::make_unique<Packet>();
      packet->due = *due;
      packet->number = num_packets_++;
      packet->to = to;
      packet->at_switch = true;
      packet->bytes.assign(buffer_.data(), buffer_.data() + size);
      under_way_.push(std::move(packet));
    }
  }

  // Where the packet in the buffer goes; -1: nowhere.
  int PortOf(size_t size) const {
    if (size < kIpv4HeaderBytes || (buffer_[0] >> 4 & 0xf) != 4) return -1;
    in_addr_t address = 0;
    std::memcpy(&address, &buffer_[16], sizeof(address));
    const auto found = port_of_.find(address);
    return found == port_of_.end() ? -1 : found->second;
  }

  void MoveDue() {
    const Nanoseconds now = Now();
    while (!under_way_.empty() && under_way_.top()->due <= now) {
      auto packet =
          std::move(const_cast<std::unique_ptr<Packet>&>(under_way_.top()));
      under_way_.pop();
      Port& port = ports_[packet->to];
      if (!packet->at_switch) {
        // A full receiver drops it, as a network card would.
        if (port.cable.Arrive(packet->bytes.size()) &&
            write(port.tun, packet->bytes.data(), packet->bytes.size()) < 0) {
          port.cable.CountOverflow();
        }
        continue;
      }
      const std::optional<Nanoseconds> due =
          port.cable.Down(packet->due, packet->bytes.size(), random_);
      if (!due.has_value()) continue;
      packet->due = *due;
      packet->number = num_packets_++;
      packet->at_switch = false;
      under_way_.push(std::move(packet));
    }
  }

  const int listener_;
  int client_ = -1;
  std::vector<Port> ports_;
  std::unordered_map<in_addr_t, int> port_of_;
  std::mt19937_64 random_;
  uint64_t num_packets_ = 0;
  std::priority_queue<std::unique_ptr<Packet>,
                      std::vector<std::unique_ptr<Packet>>, LaterFirst>
      under_way_;
  std::array<char, kLargestPacket> buffer_;
};

}  // namespace

int RunRelay(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_TIMERSLACK, 1000UL);  // delays are fractions of a millisecond
  std::string control;
  uint64_t seed = 1;
  std::vector<std::string> ports;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--control" && i + 1 < argc) {
      control = argv[++i];
    } else if (word == "--seed" && i + 1 < argc) {
      seed = std::strtoull(argv[++i], nullptr, 10);
    } else {
      ports.push_back(word);
    }
  }
  Relay relay(Listen(control), seed);
  for (const std::string& port : ports) {
    const size_t equals = port.find('=');
    in_addr address = {};
    if (equals == std::string::npos ||
        inet_pton(AF_INET, port.c_str() + equals + 1, &address) != 1) {
      std::fprintf(stderr, "lan_relay: '%s', want NAMESPACE=IPV4\n",
                   port.c_str());
      return 64;
    }
    relay.AddPort(port.substr(0, equals), address.s_addr);
  }
  std::puts("ready");
  std::fflush(stdout);
  relay.Run();
}

}  // namespace deltafin::testing

int main(int argc, char** argv) {
  return deltafin::testing::RunRelay(argc, argv);
}
