// Connections that say nothing, or begin a handshake and stop, keep nobody out.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/file_io.h"
#include "common/net/listen_address.h"
#include "tests/integration/secure_programs.h"

namespace deltafin::testing {
namespace {

constexpr int kFlood = 2000;

// Opens connections to a server that say `first_words` and no more.
std::vector<FileDescriptor> Flood(const std::string& address,
                                  std::string_view first_words) {
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port =
      htons(static_cast<uint16_t>(ListenAddress::Parse(address)->port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::vector<FileDescriptor> flood;
  for (int i = 0; i < kFlood; ++i) {
    flood.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect(flood.back().get(), reinterpret_cast<sockaddr*>(&to),
                      sizeof(to)),
              0)
        << i << ": " << std::strerror(errno);
    if (!first_words.empty()) {
      send(flood.back().get(), first_words.data(), first_words.size(),
           MSG_NOSIGNAL);
    }
  }
  return flood;
}

// The coordinator may have at most this many files open, as a plain shell
// gives.
Words WithOpenFiles(int limit, const Words& command) {
  Words words{"/bin/sh", "-c",
              absl::StrCat("ulimit -n ", limit, "; exec \"$@\""), "sh"};
  return Join(words, command);
}

class FloodTest : public SecurityTest {
 protected:
  // A node joins, and text comes out, while the flood stands.
  void ExpectNodesJoinUnder(const std::string& address, Process& server) {
    const auto node = StartNode(address, ours());
    EXPECT_TRUE(node->WaitForOutput(
                        [](std::string_view, std::string_view err) {
                          return err.find("joined the cluster") !=
                                 std::string_view::npos;
                        },
                        kPatience)
                    .ok())
        << node->err();
    const std::string node_address = AddressOf(*node);
    const auto at_the_node = Flood(node_address, "");
    const ProcessResult run =
        RunDeltafin(Join(kShortRun, Join({"--nodes", node_address}, ours())));
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(Call(OurCredentials().Connect(address, {}),
                   "/deltafin.v1.AdminService/GetHealth"),
              grpc::StatusCode::OK)
        << server.err();
  }
};

TEST_F(FloodTest, IdleConnectionsDoNotKeepNodesFromJoining) {
  // Fewer files than connections.
  const auto server = StartProgram(WithOpenFiles(
      1024,
      Join({DeltafinBinary(), "serve", "--listen", "127.0.0.1:0", "--cluster"},
           ours())));
  const std::string address = AddressOf(*server);
  const auto flood = Flood(address, "");
  ExpectNodesJoinUnder(address, *server);
}

TEST_F(FloodTest, ConnectionsThatBeginAHandshakeAndStopDoNotEither) {
  const auto server = StartServer(ours());
  const std::string address = AddressOf(*server);
  // The header of a TLS record whose rest never comes.
  const auto flood = Flood(address, std::string("\x16\x03\x01\x02\x00", 5));
  ExpectNodesJoinUnder(address, *server);
}

TEST_F(FloodTest, AServerThatRanOutOfFilesTakesNodesAgainLater) {
  const auto server = StartProgram(WithOpenFiles(
      512,
      Join({DeltafinBinary(), "serve", "--listen", "127.0.0.1:0", "--cluster"},
           ours())));
  const std::string address = AddressOf(*server);
  {
    const auto flood = Flood(address, std::string("\x16\x03\x01\x02\x00", 5));
    ASSERT_TRUE(server
                    ->WaitForOutput(
                        [](std::string_view, std::string_view err) {
                          return err.find("too many connections") !=
                                 std::string_view::npos;
                        },
                        kPatience)
                    .ok())
        << server->err();
  }
  ExpectNodesJoinUnder(address, *server);
}

}  // namespace
}  // namespace deltafin::testing
