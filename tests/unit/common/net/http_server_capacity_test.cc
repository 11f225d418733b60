// An HTTP server with as many clients and bytes as it may have, over real
// sockets.

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>

#include <algorithm>

#include "common/net/http_server.h"
#include "tests/testing/http_socket.h"
#include "tests/unit/common/net/http_test_server.h"

namespace deltafin::testing {
namespace {

TEST(HttpServerCapacityTest, BoundsTheBodiesOfAllConnections) {
  HttpServerOptions options;
  options.max_total_body_bytes = 10'000;
  HttpTestServer server(options, Echo);
  const std::string head =
      "POST / HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
      "Content-Length: 9000\r\n\r\n";
  {
    HttpSocket first(server.port());
    HttpSocket second(server.port());
    for (HttpSocket* client : {&first, &second}) {
      client->Send(head);
      client->ReadUntil("\r\n\r\n");
      client->Send(std::string(6000, 'x'));
    }
    // Whichever is read later is over the bound.
    pollfd both[] = {{first.fd(), POLLIN, 0}, {second.fd(), POLLIN, 0}};
    ASSERT_GT(poll(both, 2, 60'000), 0);
    HttpSocket& refused = both[0].revents != 0 ? first : second;
    const auto answer = refused.ReadAnswer();
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->status, 503);
    EXPECT_EQ(answer->headers.at("retry-after"), "1");
  }
  // A client that goes gives back what it took, once that is noticed.
  int status = 503;
  for (int i = 0; i < 10'000 && status == 503; ++i) {
    HttpSocket client(server.port());
    client.Send(head);
    client.ReadUntil("\r\n\r\n");
    client.Send(std::string(9000, 'x'));
    const auto answer = client.ReadAnswer();
    ASSERT_TRUE(answer.has_value());
    status = answer->status;
  }
  EXPECT_EQ(status, 200);
}

TEST(HttpServerCapacityTest, KeepsFiveHundredIdleConnectionsAndServesOthers) {
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 4096);
  setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < 2048) GTEST_SKIP() << "too few files may be open";
  HttpTestServer server({}, Echo);
  std::vector<std::unique_ptr<HttpSocket>> idle;
  for (int i = 0; i < 500; ++i) {
    idle.push_back(std::make_unique<HttpSocket>(server.port()));
    // Some have sent nothing, some half a line, some were served.
    if (i % 3 == 1) idle.back()->Send("GET");
    if (i % 3 == 2) {
      idle.back()->Send(Get("/x"));
      EXPECT_EQ(idle.back()->ReadAnswer()->status, 200);
    }
  }
  ExpectServes(server.port());
  for (size_t i = 0; i < idle.size(); ++i) {
    idle[i]->Send(i % 3 == 1 ? Get("/y").substr(3) : Get("/y"));
    const auto answer = idle[i]->ReadAnswer();
    ASSERT_TRUE(answer.has_value()) << i;
    EXPECT_EQ(answer->body, "GET /y?|");
  }
}

TEST(HttpServerCapacityTest, ClosesTheLongestIdleConnectionForANewOne) {
  HttpServerOptions options;
  options.max_connections = 3;
  options.num_threads = 1;  // one thing after the other
  HttpTestServer server(options, Echo);
  HttpSocket first(server.port());
  HttpSocket second(server.port());
  HttpSocket third(server.port());
  for (HttpSocket* client : {&first, &second, &third, &first}) {
    client->Send(Get("/x"));
    EXPECT_EQ(client->ReadAnswer()->status, 200);
  }
  ExpectServes(server.port());
  second.AwaitClose();
  first.Send(Get("/y"));
  EXPECT_EQ(first.ReadAnswer()->body, "GET /y?|");
}

TEST(HttpServerCapacityTest, ServesOthersWhileSlowOnesHoldAllItsConnections) {
  HttpServerOptions options;
  options.max_connections = 4;
  options.num_threads = 1;
  HttpTestServer server(options, Echo);
  std::vector<std::unique_ptr<HttpSocket>> slow;
  for (int i = 0; i < 20; ++i) {
    slow.push_back(std::make_unique<HttpSocket>(server.port()));
    slow.back()->Send("GET / HTTP/1.1\r\nHost: local");
    ExpectServes(server.port());
  }
  slow.front()->AwaitClose();
}

TEST(HttpServerCapacityTest, RefusesMoreConnectionsThanItsLimitWhenAllAreBusy) {
  HttpServerOptions options;
  options.max_connections = 2;
  options.num_threads = 1;  // one thing after the other
  HttpTestServer server(options);
  HttpSocket first(server.port());
  HttpSocket second(server.port());
  first.Send(Get("/1"));
  const HttpCall first_call = server.Await();
  second.Send(Get("/2"));
  const HttpCall second_call = server.Await();
  ASSERT_NE(second_call.reply, nullptr);
  ExpectRefusal(server.port(), Get("/3"), 503, "too_many_connections");
  first_call.reply->Send(200, {}, "1");
  EXPECT_EQ(first.ReadAnswer()->body, "1");
  HttpSocket fourth(server.port());
  fourth.Send(Get("/4"));
  EXPECT_EQ(server.Await().request.path, "/4");
  first.AwaitClose();
}

TEST(HttpServerCapacityTest, StopsReadingAheadOfAnAnswer) {
  HttpTestServer server;
  HttpSocket client(server.port());
  client.Send(Get("/0"));
  const HttpCall call = server.Await();
  ASSERT_NE(call.reply, nullptr);
  constexpr int kAhead = 1000;
  std::string ahead;
  for (int i = 0; i < kAhead; ++i) {
    ahead += Get("/ahead", "X: " + std::string(100, 'x') + "\r\n");
  }
  client.Send(ahead);  // over 100 KB; the kernel holds what we do not
  call.reply->Send(200, {}, "0");
  EXPECT_EQ(client.ReadAnswer()->body, "0");
  for (int i = 0; i < kAhead; ++i) {
    const HttpCall next = server.Await();
    ASSERT_NE(next.reply, nullptr);
    next.reply->Send(200, {}, std::to_string(i));
    EXPECT_EQ(client.ReadAnswer()->body, std::to_string(i));
  }
}

}  // namespace
}  // namespace deltafin::testing
