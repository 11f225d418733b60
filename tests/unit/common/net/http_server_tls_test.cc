// HTTP over TLS, over real sockets.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <sys/stat.h>

#include "absl/time/clock.h"
#include "common/net/certificate.h"
#include "common/net/http_server.h"
#include "common/net/secret_file.h"
#include "tests/testing/http_socket.h"
#include "tests/testing/temp_dir.h"
#include "tests/unit/common/net/http_test_server.h"

namespace deltafin::testing {
namespace {

using ::testing::HasSubstr;

// A client that takes any certificate.
class TlsClient {
 public:
  explicit TlsClient(int port)
      : socket_(port), context_(SSL_CTX_new(TLS_client_method())) {
    ssl_ = SSL_new(context_);
    SSL_set_fd(ssl_, socket_.fd());
    is_connected_ = SSL_connect(ssl_) == 1;
  }
  ~TlsClient() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
  }

  bool is_connected() const { return is_connected_; }
  void Send(std::string_view bytes) {
    SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size()));
  }
  std::string ReadUntil(std::string_view end) {
    std::string text;
    char byte;
    while (!text.ends_with(end) && SSL_read(ssl_, &byte, 1) == 1) text += byte;
    return text;
  }
  // What the end of the connection looks like.
  int ReadEnd() {
    char byte;
    return SSL_get_error(ssl_, SSL_read(ssl_, &byte, 1));
  }
  void EndSending() { SSL_shutdown(ssl_); }
  void Close() { socket_.Close(); }

 private:
  HttpSocket socket_;
  SSL_CTX* context_;
  SSL* ssl_;
  bool is_connected_ = false;
};

class HttpServerTlsTest : public ::testing::Test {
 protected:
  HttpServerTlsTest() {
    const Validity validity = UnlimitedValidity();
    const auto authority = MakeAuthority(validity);
    for (const std::string name : {"a", "b"}) {
      const auto own = IssueCertificate(*authority, name, validity);
      EXPECT_TRUE(
          WriteNewFile(dir_.File(name + ".crt"), own->certificate, kPublicMode)
              .ok());
      EXPECT_TRUE(
          WriteNewFile(dir_.File(name + ".key"), own->key, kSecretMode).ok());
    }
    options_.listen = "127.0.0.1:0";
    options_.tls = {dir_.File("a.crt"), dir_.File("a.key")};
  }

  TempDir dir_;
  HttpServerOptions options_;
};

TEST_F(HttpServerTlsTest, AnswersAndStreams) {
  HttpTestServer server(options_);
  EXPECT_TRUE(server.server().is_tls());
  TlsClient client(server.port());
  ASSERT_TRUE(client.is_connected());
  client.Send(Get("/1"));
  HttpCall call = server.Await();
  ASSERT_NE(call.reply, nullptr);
  call.reply->Begin(200, {});
  client.ReadUntil("\r\n\r\n");
  EXPECT_TRUE(call.reply->Write("part"));
  EXPECT_EQ(client.ReadUntil("part\r\n"), "4\r\npart\r\n");
  call.reply->End();
  EXPECT_EQ(client.ReadUntil("0\r\n\r\n"), "0\r\n\r\n");
  client.Send(Get("/2", "Connection: close\r\n"));
  call = server.Await();
  ASSERT_NE(call.reply, nullptr);
  const std::string body(100'000, 'x');
  call.reply->Send(200, {}, body);
  EXPECT_THAT(client.ReadUntil("\r\n\r\n"), HasSubstr("Connection: close"));
  EXPECT_EQ(client.ReadUntil(body), body);
  // An end that nobody on the way could have made.
  EXPECT_EQ(client.ReadEnd(), SSL_ERROR_ZERO_RETURN);
}

TEST_F(HttpServerTlsTest, NoticesAClientThatGoes) {
  for (const bool says_so : {true, false}) {
    HttpTestServer server(options_);
    TlsClient client(server.port());
    client.Send(Get("/1"));
    const HttpCall call = server.Await();
    ASSERT_NE(call.reply, nullptr);
    Signal gone;
    call.reply->OnGone([&gone] { gone.Raise(); });
    if (says_so) {
      client.EndSending();
    } else {
      client.Close();
    }
    EXPECT_TRUE(gone.Await());
  }
}

TEST_F(HttpServerTlsTest, ClosesOnClientsThatSpeakNoTlsOrNothing) {
  options_.header_timeout = absl::Milliseconds(50);
  HttpTestServer server(options_, Echo);
  HttpSocket plain(server.port());
  plain.Send(Get("/1"));
  EXPECT_THAT(plain.ReadToEnd(), ::testing::Not(HasSubstr("GET /1")));
  HttpSocket silent(server.port());
  EXPECT_EQ(silent.ReadToEnd(), "");
}

TEST_F(HttpServerTlsTest, ShutsDownWithClientsAtEveryStage) {
  HttpTestServer server(options_);
  HttpSocket silent(server.port());
  TlsClient idle(server.port());
  TlsClient asking(server.port());
  asking.Send(Get("/1"));
  const HttpCall call = server.Await();
  ASSERT_NE(call.reply, nullptr);
  Signal gone;
  call.reply->OnGone([&gone] { gone.Raise(); });
  server.End();
  EXPECT_EQ(gone.count(), 1);
}

TEST_F(HttpServerTlsTest, RefusesFilesThatDoNotFit) {
  const auto why = [this](const std::string& certificate,
                          const std::string& key) {
    options_.tls = {certificate, key};
    const auto server = HttpServer::Start(options_, Echo);
    return std::string(server.status().message());
  };
  const std::string a_crt = dir_.File("a.crt");
  const std::string a_key = dir_.File("a.key");
  EXPECT_THAT(why(a_crt, ""), HasSubstr("belong together"));
  EXPECT_THAT(why("", a_key), HasSubstr("belong together"));
  EXPECT_THAT(why(dir_.File("none"), a_key), HasSubstr(dir_.File("none")));
  EXPECT_THAT(why(a_crt, dir_.File("b.key")), HasSubstr("a.crt"));
  EXPECT_THAT(why(a_key, a_key), HasSubstr("no certificate"));
  ASSERT_EQ(chmod(a_key.c_str(), 0644), 0);
  EXPECT_THAT(why(a_crt, a_key), HasSubstr("chmod 600"));
}

TEST_F(HttpServerTlsTest, ListensBeyondLoopbackWithKeysForClients) {
  options_.listen = "0.0.0.0:0";
  EXPECT_EQ(CheckHttpServerOptions(options_).code(),
            absl::StatusCode::kInvalidArgument);
  options_.is_authenticated = true;
  EXPECT_TRUE(CheckHttpServerOptions(options_).ok());
}

}  // namespace
}  // namespace deltafin::testing
