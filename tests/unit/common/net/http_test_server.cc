#include "tests/unit/common/net/http_test_server.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/time/clock.h"
#include "common/net/listen_address.h"
#include "tests/testing/http_socket.h"

namespace deltafin::testing {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(1);

}  // namespace

void Signal::Raise() {
  MutexLock lock(mutex_);
  ++count_;
  changed_.NotifyAll();
}

int Signal::count() const {
  MutexLock lock(mutex_);
  return count_;
}

bool Signal::Await(int count) {
  const absl::Time deadline = absl::Now() + kPatience;
  MutexLock lock(mutex_);
  while (count_ < count) {
    if (!changed_.WaitUntil(mutex_, deadline)) return count_ >= count;
  }
  return true;
}

HttpTestServer::HttpTestServer(HttpServerOptions options, HttpHandler handler) {
  options.listen = "127.0.0.1:0";
  if (!handler) {
    handler = [this](HttpRequest request, std::shared_ptr<HttpReply> reply) {
      MutexLock lock(mutex_);
      calls_.push_back({std::move(request), std::move(reply)});
      changed_.NotifyAll();
    };
  }
  auto server = HttpServer::Start(options, std::move(handler));
  EXPECT_TRUE(server.ok()) << server.status();
  if (!server.ok()) return;
  port_ = ListenAddress::Parse((*server)->address())->port;
  server_ = *std::move(server);
}

HttpTestServer::~HttpTestServer() { End(); }

HttpCall HttpTestServer::Await() {
  const absl::Time deadline = absl::Now() + kPatience;
  MutexLock lock(mutex_);
  while (calls_.empty()) {
    if (!changed_.WaitUntil(mutex_, deadline)) return {};
  }
  HttpCall call = std::move(calls_.front());
  calls_.pop_front();
  return call;
}

void Echo(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply) {
  reply->Send(200, {{"content-type", "text/plain"}},
              request.method + " " + request.path + "?" + request.query + "|" +
                  request.body);
}

std::string Get(const std::string& path, const std::string& headers) {
  return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n";
}

void ExpectRefusal(int port, std::string_view bytes, int status,
                   const std::string& code) {
  HttpSocket client(port);
  client.Send(bytes);
  const auto answer = client.ReadAnswer();
  ASSERT_TRUE(answer.has_value()) << code;
  EXPECT_EQ(answer->status, status) << bytes.substr(0, 200);
  EXPECT_EQ(answer->headers.at("connection"), "close");
  EXPECT_EQ(answer->headers.at("content-type"), "application/json");
  const auto body = nlohmann::json::parse(answer->body, nullptr, false);
  ASSERT_TRUE(body.is_object()) << answer->body;
  const auto& error = body["error"];
  EXPECT_EQ(error["code"], code) << error;
  EXPECT_FALSE(error["message"].get<std::string>().empty());
  EXPECT_TRUE(error["param"].is_null());
  EXPECT_EQ(error["type"],
            status >= 500 ? "server_error" : "invalid_request_error");
  client.AwaitClose();
}

void ExpectServes(int port) {
  HttpSocket client(port);
  client.Send(Get("/alive"));
  const auto answer = client.ReadAnswer();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->body, "GET /alive?|");
}

}  // namespace deltafin::testing
