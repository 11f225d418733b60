#include "common/net/listen_address.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

namespace deltafin {
namespace {

TEST(ListenAddressTest, SplitsHostAndPort) {
  const auto v4 = ListenAddress::Parse("127.0.0.1:7400");
  ASSERT_TRUE(v4.ok());
  EXPECT_EQ(v4->host, "127.0.0.1");
  EXPECT_EQ(v4->port, 7400);
  const auto v6 = ListenAddress::Parse("[::1]:0");
  ASSERT_TRUE(v6.ok());
  EXPECT_EQ(v6->host, "::1");
  EXPECT_EQ(v6->port, 0);
  EXPECT_EQ(v6->ToString(), "[::1]:0");
  EXPECT_EQ(v4->ToString(), "127.0.0.1:7400");
}

TEST(ListenAddressTest, RefusesWhatIsNoAddressWithItsText) {
  for (const char* text : {"", "7400", "host", "host:", ":7400", "::1:7400",
                           "host:65536", "host:-1", "host:7400x", "[]:7400"}) {
    const auto address = ListenAddress::Parse(text);
    EXPECT_EQ(address.status().code(), absl::StatusCode::kInvalidArgument)
        << text;
  }
  EXPECT_NE(std::string(ListenAddress::Parse("host:99999").status().message())
                .find("'99999' is no port"),
            std::string::npos);
}

TEST(ListenAddressTest, KnowsLoopbackAddressesAndNames) {
  for (const char* host : {"127.0.0.1", "127.1.2.3", "::1", "localhost"}) {
    const auto is_loopback = IsLoopback({host, 1});
    ASSERT_TRUE(is_loopback.ok()) << is_loopback.status();
    EXPECT_TRUE(*is_loopback) << host;
  }
  for (const char* host : {"0.0.0.0", "::", "192.168.1.5", "10.0.0.1",
                           "8.8.8.8", "::ffff:127.0.0.1"}) {
    const auto is_loopback = IsLoopback({host, 7400});
    ASSERT_TRUE(is_loopback.ok()) << is_loopback.status();
    EXPECT_FALSE(*is_loopback) << host;
  }
}

TEST(ListenAddressTest, TellsWhetherAPortIsFree) {
  const int server = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* any = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(bind(server, any, size), 0);
  ASSERT_EQ(getsockname(server, any, &size), 0);
  ASSERT_EQ(listen(server, 1), 0);
  const ListenAddress taken{"127.0.0.1", ntohs(address.sin_port)};
  const absl::Status status = RequireFreePort(taken);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(std::string(status.message()).find(taken.ToString()),
            std::string::npos);
  close(server);
  EXPECT_TRUE(RequireFreePort(taken).ok());
  EXPECT_TRUE(RequireFreePort({"127.0.0.1", 0}).ok());
}

TEST(ListenAddressTest, SaysWhichHostIsUnknown) {
  const absl::Status status =
      IsLoopback({"no-such-host.invalid", 7400}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(status.message()).find("no-such-host.invalid"),
            std::string::npos);
}

}  // namespace
}  // namespace deltafin
