// `deltafin serve --http` through its public door, by curl.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/integration/deltafin_program.h"
#include "tests/testing/http_socket.h"
#include "tests/testing/mini_cluster.h"
#include "tests/testing/temp_dir.h"

namespace deltafin::testing {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr absl::Duration kPatience = absl::Minutes(2);

struct Answer {
  int status = 0;
  std::string head;  // status line and headers
  std::string body;

  Json error() const { return Json::parse(body)["error"]; }
};

class HttpApiServer {
 public:
  explicit HttpApiServer(const Words& flags = {}) {
    auto process = Process::Start(Join({DeltafinBinary(), "serve", "--listen",
                                        "127.0.0.1:0", "--http", "127.0.0.1:0"},
                                       flags));
    EXPECT_TRUE(process.ok()) << process.status();
    process_ = *std::move(process);
    EXPECT_TRUE(WaitForAddress(*process_).ok());
    const std::string out = process_->out();
    const std::string head = "HTTP API at ";
    const size_t at = out.find(head) + head.size();
    url_ = out.substr(at, out.find("/v1\n", at) - at);
  }

  Process& process() { return *process_; }
  int port() const { return std::stoi(url_.substr(url_.rfind(':') + 1)); }

  // What curl says of the path, with further arguments of its.
  Answer Curl(const std::string& path, const Words& arguments = {}) const {
    const auto result = RunProcess(
        Join({"/usr/bin/curl", "--silent", "--include", "--max-time", "100"},
             Join(arguments, {url_ + path})),
        kPatience);
    EXPECT_TRUE(result.ok()) << result.status();
    Answer answer;
    const size_t split = result->out.find("\r\n\r\n");
    if (split == std::string::npos) return answer;
    answer.head = result->out.substr(0, split);
    answer.body = result->out.substr(split + 4);
    answer.status = std::stoi(answer.head.substr(answer.head.find(' ')));
    return answer;
  }
  Answer Post(const std::string& path, const std::string& body,
              const Words& arguments = {}) const {
    return Curl(path, Join({"--header", "Content-Type: application/json",
                            "--data-binary", body},
                           arguments));
  }

 private:
  std::unique_ptr<Process> process_;
  std::string url_;
};

constexpr char kChat[] =
    R"({"model":"k3-nano","messages":[{"role":"user","content":"Hi"}]})";

TEST(HttpApiTest, AnswersChatsLikeTheReference) {
  const HttpApiServer server;
  const Json golden = ReadJsonFile(NanoModelDir() + "/eval/golden.json");
  for (const Json& chat : golden["chat_prompts"]) {
    Json request;
    request["model"] = "k3-nano";
    request["messages"] = chat["messages"];
    request["reasoning_effort"] =
        chat["thinking"] ? chat["effort"].get<std::string>() : "none";
    const Answer answer = server.Post("/v1/chat/completions", request.dump());
    ASSERT_EQ(answer.status, 200) << answer.body;
    const Json body = Json::parse(answer.body);
    const std::string text = body["choices"][0]["message"]["content"];
    EXPECT_FALSE(text.empty());
    EXPECT_THAT(chat["float32"]["text"].get<std::string>(), HasSubstr(text));
    EXPECT_EQ(body["usage"]["prompt_tokens"], chat["ids"].size());
    EXPECT_EQ(body["usage"]["completion_tokens"],
              chat["float32"]["greedy"].size());
    EXPECT_EQ(body["choices"][0]["finish_reason"], "stop");
  }
}

TEST(HttpApiTest, EveryClassOfErrorLooksTheSame) {
  const HttpApiServer server({"--context", "300"});
  const std::string chats = "/v1/chat/completions";
  const auto with = [](const std::string& more) {
    return R"({"model":"k3-nano","messages":[{"role":"user","content":"Hi"}])" +
           more + "}";
  };
  struct Case {
    Answer answer;
    int status;
    const char* code;
    const char* param;  // empty: null
  };
  const Case cases[] = {
      {server.Post(chats, "{"), 400, "invalid_json", ""},
      {server.Post(chats, with(R"(,"n":"2")")), 400, "invalid_type", "n"},
      {server.Post(chats, with(R"(,"top_p":2)")), 400, "invalid_value",
       "top_p"},
      {server.Post(chats, with(R"(,"x":2)")), 400, "unknown_parameter", "x"},
      {server.Post(chats, with(R"(,"seed":1,"seed":1)")), 400, "invalid_json",
       "seed"},
      {server.Post(chats, with(R"(,"response_format":{"type":"x"})")), 400,
       "unsupported_parameter", "response_format.type"},
      {server.Post(chats, R"({"model":"k3-nano"})"), 400,
       "missing_required_parameter", "messages"},
      {server.Post("/v1/completions", R"({"model":"k3-nano","prompt":")" +
                                          std::string(4000, 'q') + "\"}"),
       400, "context_length_exceeded", "prompt"},
      {server.Post(chats, R"({"model":"gpt","messages":[]})"), 400,
       "invalid_value", "messages"},
      {server.Post("/v1/completions", R"({"model":"gpt","prompt":"a"})"), 404,
       "model_not_found", "model"},
      {server.Curl("/nowhere"), 404, "not_found", ""},
      {server.Curl(chats), 405, "method_not_allowed", ""},
      {server.Curl(chats, {"--data", kChat}), 415, "unsupported_media_type",
       ""},
      {server.Post(chats, kChat, {"--header", "Origin: http://evil.example"}),
       403, "forbidden_origin", ""},
      {server.Post(chats, kChat, {"--header", "Host: evil.example"}), 421,
       "unknown_host", ""},
      {server.Post("/v1/completions",
                   R"({"model":"k3-nano","prompt":"a","timeout":0.001})"),
       504, "timeout", ""},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.answer.head + c.answer.body);
    EXPECT_EQ(c.answer.status, c.status);
    const Json error = c.answer.error();
    EXPECT_EQ(error["code"], c.code);
    EXPECT_EQ(error["param"], *c.param == '\0' ? Json() : Json(c.param));
    EXPECT_TRUE(error["message"].is_string());
    EXPECT_TRUE(error["type"].is_string());
  }
  EXPECT_EQ(server.Post(chats, kChat).status, 200);
}

TEST(HttpApiTest, AHugeBodyIsRefusedBeforeItIsSent) {
  const HttpApiServer server;
  TempDir dir;
  const std::string file = dir.File("body");
  std::ofstream(file).close();
  ASSERT_EQ(truncate(file.c_str(), 128 << 20), 0);
  const Answer answer = server.Curl(
      "/v1/completions", {"--header", "Content-Type: application/json",
                          "--data-binary", "@" + file});
  EXPECT_EQ(answer.status, 413);
  EXPECT_EQ(answer.error()["code"], "body_too_large");
  EXPECT_EQ(server.Curl("/healthz").status, 200);
}

TEST(HttpApiTest, AClientThatGoesMidStreamFreesItsPlace) {
  // So long that it cannot end by itself before.
  const HttpApiServer server({"--context", "32768", "--speculate", "off"});
  const std::string body =
      R"({"model":"k3-nano","prompt":"It was a dark","max_tokens":100000,)"
      R"("ignore_eos":true,"stream":true})";
  HttpSocket client(server.port());
  ASSERT_TRUE(client.Send(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
      "application/json\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body));
  EXPECT_THAT(client.ReadUntil("data: "), StartsWith("HTTP/1.1 200"));
  client.Close();
  const std::string cancelled =
      "deltafin_finished_requests_total{reason=\"cancelled\"} 1\n";
  while (server.Curl("/metrics").body.find(cancelled) == std::string::npos) {
  }
  EXPECT_THAT(server.Curl("/metrics").body,
              HasSubstr("deltafin_running_requests 0\n"));
}

TEST(HttpApiTest, KeysAreAskedForAndNeverShown) {
  TempDir dir;
  const std::string file = dir.File("keys");
  std::ofstream(file) << "sk-0123456789abcdef\n";
  chmod(file.c_str(), 0600);
  HttpApiServer server(
      {"--api-key-file", file, "--cors-origin", "https://chat.example"});
  EXPECT_EQ(server.Post("/v1/chat/completions", kChat).status, 401);
  const Answer good =
      server.Post("/v1/chat/completions", kChat,
                  {"--header", "Authorization: Bearer sk-0123456789abcdef",
                   "--header", "Origin: https://chat.example"});
  EXPECT_EQ(good.status, 200) << good.body;
  EXPECT_THAT(good.head, HasSubstr("Access-Control-Allow-Origin: "
                                   "https://chat.example"));
  EXPECT_EQ(server.process().err().find("0123456789abcdef"), std::string::npos);
}

TEST(HttpApiTest, SigtermLetsAStreamEnd) {
  HttpApiServer server;
  const std::string body =
      R"({"model":"k3-nano","prompt":"It was a dark","max_tokens":300,)"
      R"("ignore_eos":true,"stream":true})";
  HttpSocket client(server.port());
  ASSERT_TRUE(client.Send(
      "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
      "application/json\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body));
  client.ReadUntil("data: ");
  server.process().Signal(SIGTERM);
  EXPECT_THAT(client.ReadToEnd(), HasSubstr("data: [DONE]"));
  const auto code = server.process().Wait(kPatience);
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 0);
}

TEST(HttpApiTest, RefusesFlagsThatMakeNoSense) {
  const std::pair<Words, const char*> cases[] = {
      {{"--http", "0.0.0.0:0"}, "--http-tls-cert"},
      {{"--http", "nowhere"}, "--http"},
      {{"--api-key-file", "x"}, "need --http"},
      {{"--http", "127.0.0.1:0", "--http-tls-cert", "x"}, "go together"},
      {{"--http", "127.0.0.1:0", "--cors-origin", "chat.example"},
       "--cors-origin"},
  };
  for (const auto& [flags, words] : cases) {
    const ProcessResult result = RunDeltafin(Join({"serve"}, flags));
    EXPECT_EQ(result.exit_code, 64);
    EXPECT_THAT(result.err, HasSubstr(words));
  }
}

}  // namespace
}  // namespace deltafin::testing
