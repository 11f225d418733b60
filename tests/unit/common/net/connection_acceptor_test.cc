#include "common/net/connection_acceptor.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "absl/base/config.h"
#include "common/base/mutex.h"

namespace deltafin {
namespace {

// A client's connection; blocking.
FileDescriptor ConnectTo(int port) {
  FileDescriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(
      connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)),
      0)
      << errno;
  const timeval patience = {60, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  return fd;
}

void Speak(const FileDescriptor& fd) {
  ASSERT_EQ(send(fd.get(), "x", 1, 0), 1);
}

// Waits until the other side has closed.
bool IsClosed(const FileDescriptor& fd) {
  char byte;
  const ssize_t got = recv(fd.get(), &byte, 1, 0);
  return got == 0 || (got < 0 && errno == ECONNRESET);
}

// Keeps what the acceptor hands on.
class Server {
 public:
  explicit Server(const AcceptorLimits& limits) {
    auto acceptor = ConnectionAcceptor::Listen({"127.0.0.1", 0}, limits);
    EXPECT_TRUE(acceptor.ok()) << acceptor.status();
    acceptor_ = *std::move(acceptor);
    acceptor_->Start([this](int, int fd) {
      MutexLock lock(mutex_);
      accepted_.emplace_back(fd);
      changed_.NotifyAll();
    });
  }
  int port() const { return acceptor_->port(); }
  void Stop() { acceptor_->Stop(); }
  bool WaitFor(size_t count) {
    const absl::Time deadline = absl::Now() + absl::Minutes(1);
    MutexLock lock(mutex_);
    while (accepted_.size() < count) {
      if (!changed_.WaitUntil(mutex_, deadline)) return false;
    }
    return accepted_.size() == count;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<FileDescriptor> accepted_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<ConnectionAcceptor> acceptor_;
};

TEST(ConnectionAcceptorTest, HandsOnConnectionsThatSpeak) {
  Server server({});
  const FileDescriptor silent = ConnectTo(server.port());
  const FileDescriptor first = ConnectTo(server.port());
  Speak(first);
  EXPECT_TRUE(server.WaitFor(1));
  Speak(silent);
  EXPECT_TRUE(server.WaitFor(2));
}

TEST(ConnectionAcceptorTest, TheOldestSilentOneGoesWhenTooManyCome) {
  AcceptorLimits limits;
  limits.max_silent = 3;
  limits.longest_silence = absl::Hours(1);
  Server server(limits);
  const FileDescriptor oldest = ConnectTo(server.port());
  std::vector<FileDescriptor> others;
  for (int i = 0; i < 3; ++i) others.push_back(ConnectTo(server.port()));
  EXPECT_TRUE(IsClosed(oldest));
  for (const FileDescriptor& fd : others) Speak(fd);
  EXPECT_TRUE(server.WaitFor(3));
}

TEST(ConnectionAcceptorTest, SilenceHasAnEnd) {
  AcceptorLimits limits;
  limits.longest_silence = absl::Milliseconds(1);
  Server server(limits);
  EXPECT_TRUE(IsClosed(ConnectTo(server.port())));
}

TEST(ConnectionAcceptorTest, LivesOnWhenNoDescriptorsAreLeft) {
#ifdef ABSL_HAVE_ADDRESS_SANITIZER
  // It opens a pipe to see whether an object is one.
  GTEST_SKIP() << "UBSan itself needs a descriptor";
#endif
  AcceptorLimits limits;
  limits.reserved_descriptors = 1 << 30;  // half of the limit, as documented
  Server server(limits);
  // The next descriptors lie above what connections may reach.
  std::vector<FileDescriptor> fillers;
  while (true) {
    fillers.emplace_back(dup(STDERR_FILENO));
    if (fillers.back().get() < 0) break;
  }
  // Two are needed here: one for the client, one to be turned away.
  fillers.resize(fillers.size() - 3);
  FileDescriptor turned_away = ConnectTo(server.port());
  EXPECT_TRUE(IsClosed(turned_away));
  fillers.clear();
  const FileDescriptor later = ConnectTo(server.port());
  Speak(later);
  EXPECT_TRUE(server.WaitFor(1));
}

TEST(ConnectionAcceptorTest, StopsListening) {
  Server server({});
  const int port = server.port();
  const FileDescriptor silent = ConnectTo(port);
  server.Stop();
  EXPECT_TRUE(IsClosed(silent));
  const auto again = ConnectionAcceptor::Listen({"127.0.0.1", port});
  EXPECT_TRUE(again.ok()) << again.status();
}

}  // namespace
}  // namespace deltafin
