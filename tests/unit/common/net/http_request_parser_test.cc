#include "common/net/http_request_parser.h"

#include <gtest/gtest.h>

namespace deltafin {
namespace {

using State = HttpRequestParser::State;
constexpr HttpRequestLimits kLimits = {1000, 100};

// Gives `bytes` in pieces of at most `piece`; returns what is left over.
std::string Feed(HttpRequestParser& parser, std::string_view bytes,
                 size_t piece) {
  std::string waiting;
  while (!bytes.empty()) {
    waiting += bytes.substr(0, piece);
    bytes.remove_prefix(std::min(piece, bytes.size()));
    waiting.erase(0, parser.Take(waiting));
  }
  return waiting;
}

TEST(HttpRequestParserTest, FindsTheSameRequestHoweverTheBytesCome) {
  const std::string bytes =
      "\r\n\r\nPOST /a?b HTTP/1.1\r\nHost: h\r\nX:  y z \r\nTransfer-Encoding: "
      "Chunked\r\n\r\n3\r\nabc\r\n10;x=y\r\n0123456789abcdef\r\n0\r\nT: u"
      "\r\n\r\nGET /next";
  for (size_t piece = 1; piece <= bytes.size(); ++piece) {
    HttpRequestParser parser(kLimits);
    EXPECT_EQ(Feed(parser, bytes, piece), "GET /next");
    ASSERT_EQ(parser.state(), State::kComplete) << piece;
    EXPECT_TRUE(parser.keeps_alive());
    const HttpRequest request = parser.TakeRequest();
    EXPECT_EQ(request.method, "POST");
    EXPECT_EQ(request.path, "/a");
    EXPECT_EQ(request.query, "b");
    EXPECT_EQ(request.body, "abc0123456789abcdef");
    const HttpHeaders expected = {
        {"host", "h"}, {"x", "y z"}, {"transfer-encoding", "Chunked"}};
    EXPECT_EQ(request.headers, expected);
  }
}

TEST(HttpRequestParserTest, FindsTheEndOfAnEmptyChunkedBodyHoweverItComes) {
  const std::string head =
      "PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const std::string body : {"0\r\n\r\n", "0\r\nT: u\r\n\r\n"}) {
    for (size_t piece = 1; piece <= body.size(); ++piece) {
      HttpRequestParser parser(kLimits);
      parser.Take(head);
      EXPECT_EQ(Feed(parser, body + "G", piece), "G");
      EXPECT_EQ(parser.state(), State::kComplete) << piece;
    }
  }
}

TEST(HttpRequestParserTest, RefusesTheSameHoweverTheBytesCome) {
  const std::string kBad[] = {"GET / HTTP/1.1\r\nHost: h\r\n x\r\n\r\n",
                              "GET / HTTP/1.1\nHost: h\r\n\r\n",
                              "\rGET / HTTP/1.1\r\nHost: h\r\n\r\n",
                              "GET / HTTP/1.1\r\nHost: h\r\r\n\r\n",
                              "PUT / HTTP/1.1\r\nHost: h\r\n"
                              "Transfer-Encoding: chunked\r\n\r\n"
                              "5;a=\"b\r\nhello\r\n0\r\n\r\n"};
  for (const std::string& bytes : kBad) {
    for (size_t piece = 1; piece <= bytes.size(); ++piece) {
      HttpRequestParser parser(kLimits);
      Feed(parser, bytes, piece);
      ASSERT_EQ(parser.state(), State::kRefused) << bytes;
      EXPECT_EQ(parser.refusal().status, 400);
    }
  }
}

TEST(HttpRequestParserTest, KnowsTheHeadersBeforeTheBody) {
  HttpRequestParser parser(kLimits);
  const std::string_view head =
      "PUT http://h:1/ HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\n"
      "Connection: close\r\nContent-Length: 100\r\n\r\n";
  EXPECT_EQ(parser.Take(head), head.size());
  EXPECT_EQ(parser.state(), State::kBody);
  EXPECT_TRUE(parser.expects_continue());
  EXPECT_FALSE(parser.keeps_alive());
  EXPECT_FALSE(parser.is_http_1_0());
  EXPECT_EQ(parser.authority(), "h:1");
  EXPECT_EQ(parser.Take(std::string(60, 'x')), 60);
  EXPECT_EQ(parser.body_bytes(), 60);
  EXPECT_EQ(parser.Take(std::string(60, 'y')), 40);
  EXPECT_EQ(parser.state(), State::kComplete);
  EXPECT_EQ(parser.Take("more"), 0);
}

TEST(HttpRequestParserTest, RefusesOneByteMoreThanItsLimits) {
  const std::string start = "GET / HTTP/1.1\r\nHost: h\r\nX: ";
  for (const size_t size :
       {kLimits.max_header_bytes, kLimits.max_header_bytes + 1}) {
    HttpRequestParser parser(kLimits);
    const std::string bytes =
        start + std::string(size - start.size() - 4, 'x') + "\r\n\r\n";
    parser.Take(bytes);
    EXPECT_EQ(parser.state(), size == kLimits.max_header_bytes
                                  ? State::kComplete
                                  : State::kRefused);
  }
  for (const int size : {100, 101}) {
    HttpRequestParser parser(kLimits);
    parser.Take("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: " +
                std::to_string(size) + "\r\n\r\n");
    EXPECT_EQ(parser.state(), size == 100 ? State::kBody : State::kRefused);
  }
}

TEST(HttpRequestParserTest, HasNotBegunWithEmptyLines) {
  HttpRequestParser parser(kLimits);
  EXPECT_EQ(parser.Take("\r\n\r\n\r"), 4);
  EXPECT_FALSE(parser.has_begun());
  EXPECT_EQ(parser.Take("\r\nG"), 2);
  EXPECT_TRUE(parser.has_begun());
}

}  // namespace
}  // namespace deltafin
