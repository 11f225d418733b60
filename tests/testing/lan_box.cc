#include "tests/testing/lan_box.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace deltafin::testing {
namespace {

constexpr absl::Duration kStartTimeout = absl::Seconds(30);

std::string Address(int place) { return absl::StrCat("10.77.0.", place + 1); }

std::string AddressLines(int place, const std::string& device, int mtu) {
  return absl::StrCat("addr add ", Address(place), "/24 dev ", device,
                      "\nlink set ", device, " mtu ", mtu, " up\n");
}

std::string SettingsOf(const LanLink& link) {
  return absl::StrCat("delay_us=", absl::ToDoubleMicroseconds(link.delay),
                      " rate=", link.bits_per_second,
                      " loss=", link.loss_percent,
                      " reorder=", link.reorder_percent);
}

absl::StatusOr<int> ConnectTo(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd >= 0 && connect(fd, reinterpret_cast<sockaddr*>(&address),
                         sizeof(address)) == 0) {
    return fd;
  }
  return absl::UnavailableError(absl::StrCat(path, ": ", std::strerror(errno)));
}

std::string RelayBinary() {
  return std::string(DELTAFIN_BINARY_DIR) + "/tests/testing/lan_relay";
}

}  // namespace

std::string LanProfileName(LanProfile profile) {
  switch (profile) {
    case LanProfile::kLan:
      return "lan";
    case LanProfile::kFast:
      return "fast";
    case LanProfile::kLoopback:
      return "loopback";
  }
  return "";
}

absl::StatusOr<std::unique_ptr<LanBox>> LanBox::Create(LanProfile profile,
                                                       int num_places) {
  std::unique_ptr<LanBox> box(new LanBox(profile));
  RETURN_IF_ERROR(box->Build(num_places));
  return box;
}

LanBox::~LanBox() {
  if (control_ >= 0) close(control_);
}

absl::Status LanBox::Build(int num_places) {
  static std::atomic<int> num_boxes{0};
  const int box = num_boxes++;
  const int num_spaces = profile_ == LanProfile::kLoopback ? 1 : num_places;
  for (int i = 0; i < num_spaces; ++i) {
    ASSIGN_OR_RETURN(std::unique_ptr<NetworkNamespace> space,
                     NetworkNamespace::Create(absl::StrCat(box, "-", i)));
    spaces_.push_back(std::move(space));
  }
  if (profile_ == LanProfile::kLan) return BuildRelay();
  if (profile_ == LanProfile::kLoopback) return absl::OkStatus();
  ASSIGN_OR_RETURN(switch_,
                   NetworkNamespace::Create(absl::StrCat(box, "-switch")));
  return BuildBridge();
}

absl::Status LanBox::BuildRelay() {
  const std::string control =
      absl::StrCat("/tmp/", spaces_[0]->name(), ".relay");
  std::vector<std::string> argv{RelayBinary(), "--control", control};
  for (size_t i = 0; i < spaces_.size(); ++i) {
    argv.push_back(absl::StrCat(spaces_[i]->name(), "=", host(i)));
  }
  ASSIGN_OR_RETURN(relay_, Process::Start(argv));
  RETURN_IF_ERROR(relay_->WaitForOutput(
      [](std::string_view out, std::string_view) {
        return out.find("ready\n") != std::string_view::npos;
      },
      kStartTimeout));
  ASSIGN_OR_RETURN(control_, ConnectTo(control));
  unlink(control.c_str());  // the connection is enough
  for (size_t i = 0; i < spaces_.size(); ++i) {
    RETURN_IF_ERROR(spaces_[i]->Ip(AddressLines(i, "lan0", 1500)));
    RETURN_IF_ERROR(SetLink(i, LanLink()));
  }
  return absl::OkStatus();
}

absl::Status LanBox::BuildBridge() {
  std::string lines = "link add br0 type bridge\nlink set br0 up\n";
  for (size_t i = 0; i < spaces_.size(); ++i) {
    absl::StrAppend(&lines, "link add v", i, " type veth peer name eth0 netns ",
                    spaces_[i]->name(), "\nlink set v", i, " master br0 up\n");
  }
  RETURN_IF_ERROR(switch_->Ip(lines));
  for (size_t i = 0; i < spaces_.size(); ++i) {
    RETURN_IF_ERROR(spaces_[i]->Ip(AddressLines(i, "eth0", 1500)));
  }
  return absl::OkStatus();
}

std::string LanBox::host(int place) const {
  return profile_ == LanProfile::kLoopback ? "127.0.0.1" : Address(place);
}

const NetworkNamespace& LanBox::space(int place) const {
  return *spaces_[profile_ == LanProfile::kLoopback ? 0 : place];
}

absl::StatusOr<std::unique_ptr<Process>> LanBox::Start(
    int place, const std::vector<std::string>& argv,
    ProcessOptions options) const {
  options.network_namespace = space(place).path();
  return Process::Start(argv, options);
}

absl::Status LanBox::SetLink(int place, const LanLink& link) {
  return Command(absl::StrCat("set ", place, " ", SettingsOf(link)));
}

absl::Status LanBox::Down(int place) { return SetDown(place, true); }
absl::Status LanBox::Up(int place) { return SetDown(place, false); }

absl::Status LanBox::SetDown(int place, bool down) {
  if (profile_ == LanProfile::kLan) {
    return Command(absl::StrCat("set ", place, " down=", down ? 1 : 0));
  }
  if (profile_ == LanProfile::kLoopback) {
    return absl::FailedPreconditionError("the loopback profile has no links");
  }
  return switch_->Ip(
      absl::StrCat("link set v", place, down ? " down\n" : " up\n"));
}

absl::StatusOr<LanCounters> LanBox::Counters(int place) {
  ASSIGN_OR_RETURN(const std::string answer,
                   Ask(absl::StrCat("stats ", place)));
  LanCounters c;
  if (std::sscanf(answer.c_str(),
                  "up_packets=%ld up_bytes=%ld down_packets=%ld down_bytes=%ld "
                  "lost=%ld overflowed=%ld cut=%ld",
                  &c.up_packets, &c.up_bytes, &c.down_packets, &c.down_bytes,
                  &c.lost, &c.overflowed, &c.cut) != 7) {
    return absl::InternalError(absl::StrCat("lan_relay: ", answer));
  }
  return c;
}

absl::Status LanBox::Command(const std::string& command) {
  ASSIGN_OR_RETURN(const std::string answer, Ask(command));
  if (answer == "ok") return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("lan_relay: ", command, ": ", answer));
}

absl::StatusOr<std::string> LanBox::Ask(const std::string& command) {
  if (control_ < 0) {
    return absl::FailedPreconditionError("only the lan profile has a relay");
  }
  std::array<char, 1024> answer;
  if (send(control_, command.data(), command.size(), MSG_NOSIGNAL) < 0) {
    return absl::UnavailableError("lan_relay is gone");
  }
  const ssize_t size = recv(control_, answer.data(), answer.size(), 0);
  if (size <= 0) return absl::UnavailableError("lan_relay is gone");
  return std::string(answer.data(), static_cast<size_t>(size));
}

}  // namespace deltafin::testing
