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
// whoever started it. Ends with its parent, or by a signal. One thread at
// real-time priority; TUNs have no offload here, so a packet costs a read and a
// write: with an MTU of 1500 one core moves about 0.85 Gbit/s, all links
// together, and delivers up to 0.1 ms late.

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
  Nanoseconds due = 0;  // at the switch, or at its end
  uint64_t number = 0;  // keeps those due at once in order
  int to = 0;
  std::vector<char> bytes;
};
using OwnedPacket = std::unique_ptr<Packet>;

// Packets in the order in which they are due.
class Flight {
 public:
  void Push(OwnedPacket packet, Nanoseconds due) {
    packet->due = due;
    packet->number = num_packets_++;
    packets_.push_back(std::move(packet));
    std::push_heap(packets_.begin(), packets_.end(), LaterFirst);
  }
  const Packet* first() const {
    return packets_.empty() ? nullptr : packets_.front().get();
  }
  OwnedPacket Pop() {
    std::pop_heap(packets_.begin(), packets_.end(), LaterFirst);
    OwnedPacket packet = std::move(packets_.back());
    packets_.pop_back();
    return packet;
  }

 private:
  static bool LaterFirst(const OwnedPacket& a, const OwnedPacket& b) {
    return a->due != b->due ? a->due > b->due : a->number > b->number;
  }

  std::vector<OwnedPacket> packets_;  // a heap
  uint64_t num_packets_ = 0;
};

class Relay {
 public:
  Relay(int listener, uint64_t seed) : listener_(listener), random_(seed) {}

  void AddPort(const std::string& name, in_addr_t address) {
    port_of_[address] = static_cast<int>(ports_.size());
    ports_.push_back({OpenTun(name), LanCable()});
  }

  [[noreturn]] void Run() {
    fds_.assign(kFirstPort + ports_.size(), {-1, POLLIN, 0});
    fds_[kListener].fd = listener_;
    for (size_t i = 0; i < ports_.size(); ++i) {
      fds_[kFirstPort + i].fd = ports_[i].tun;
    }
    while (true) {
      Await();
      for (size_t i = 0; i < ports_.size(); ++i) {
        if (fds_[kFirstPort + i].revents != 0) Take(static_cast<int>(i));
      }
      PassSwitch();
      Deliver();
    }
  }

 private:
  enum { kListener, kClient, kFirstPort };
  struct Port {
    int tun = -1;
    LanCable cable;
  };

  void Await() {
    const Nanoseconds wait = TimeToNext();
    const timespec timeout = {wait / 1'000'000'000, wait % 1'000'000'000};
    if (ppoll(fds_.data(), fds_.size(), &timeout, nullptr) <= 0) {
      for (pollfd& fd : fds_) fd.revents = 0;
    }
    if (fds_[kListener].revents != 0) {
      close(fds_[kClient].fd);
      fds_[kClient].fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    } else if (fds_[kClient].revents != 0) {
      Obey();
    }
  }

  // What passes the switch need not be looked at before it can be delivered.
  Nanoseconds TimeToNext() const {
    Nanoseconds next = Now() + 1'000'000'000;
    if (const Packet* packet = to_end_.first(); packet != nullptr) {
      next = std::min(next, packet->due);
    }
    if (const Packet* packet = to_switch_.first(); packet != nullptr) {
      next = std::min(next, packet->due + ports_[packet->to].cable.delay());
    }
    return std::max<Nanoseconds>(next - Now(), 0);
  }

  void Obey() {
    std::array<char, 1024> message;
    const ssize_t size =
        recv(fds_[kClient].fd, message.data(), message.size(), 0);
    if (size <= 0) {
      close(fds_[kClient].fd);
      fds_[kClient].fd = -1;
      return;
    }
    const std::string answer =
        Answer(std::string(message.data(), static_cast<size_t>(size)));
    send(fds_[kClient].fd, answer.data(), answer.size(), MSG_NOSIGNAL);
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
      OwnedPacket packet = NewPacket();
      packet->to = to;
      packet->bytes.assign(buffer_.data(), buffer_.data() + size);
      to_switch_.Push(std::move(packet), *due);
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

  void PassSwitch() {
    const Nanoseconds now = Now();
    while (to_switch_.first() != nullptr && to_switch_.first()->due <= now) {
      OwnedPacket packet = to_switch_.Pop();
      const std::optional<Nanoseconds> due = ports_[packet->to].cable.Down(
          packet->due, packet->bytes.size(), random_);
      if (due.has_value()) {
        to_end_.Push(std::move(packet), *due);
      } else {
        unused_.push_back(std::move(packet));
      }
    }
  }

  void Deliver() {
    const Nanoseconds now = Now();
    while (to_end_.first() != nullptr && to_end_.first()->due <= now) {
      OwnedPacket packet = to_end_.Pop();
      Port& port = ports_[packet->to];
      // A full receiver drops it, as a network card would.
      if (port.cable.Arrive(packet->bytes.size()) &&
          write(port.tun, packet->bytes.data(), packet->bytes.size()) < 0) {
        port.cable.CountOverflow();
      }
      unused_.push_back(std::move(packet));
    }
  }

  OwnedPacket NewPacket() {
    if (unused_.empty()) return std::make_unique<Packet>();
    OwnedPacket packet = std::move(unused_.back());
    unused_.pop_back();
    return packet;
  }

  const int listener_;
  std::vector<pollfd> fds_;
  std::vector<Port> ports_;
  std::unordered_map<in_addr_t, int> port_of_;
  std::mt19937_64 random_;
  Flight to_switch_;
  Flight to_end_;
  std::vector<OwnedPacket> unused_;
  std::array<char, kLargestPacket> buffer_;
};

}  // namespace

int RunRelay(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_TIMERSLACK, 1000UL);  // delays are fractions of a millisecond
  // A cable does not wait for a busy machine. Where it may not, it does.
  const sched_param priority = {1};
  sched_setscheduler(0, SCHED_FIFO, &priority);
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
