// `deltafin serve` through its public door.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/integration/inference_client.h"

namespace deltafin::testing {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

Json Golden() { return ReadJsonFile(NanoModelDir() + "/eval/golden.json"); }

v1::GenerateRequest ChatRequestOf(const Json& golden) {
  v1::GenerateRequest request;
  v1::Chat& chat = *request.mutable_chat();
  for (const Json& message : golden["messages"]) {
    v1::ChatMessage& added = *chat.add_messages();
    added.set_role(message["role"]);
    added.set_content(message["content"]);
  }
  chat.set_thinking(golden["thinking"] ? golden["effort"].get<std::string>()
                                       : "off");
  request.set_max_new_tokens(64);
  return request;
}

TEST(ServeTest, AnswersChatsLikeTheReference) {
  ServeProcess server({});
  const Json golden = Golden();
  ASSERT_EQ(golden["chat_prompts"].size(), 4);
  for (const Json& chat : golden["chat_prompts"]) {
    const absl::StatusOr<Generated> answer =
        Generate(server, ChatRequestOf(chat));
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(Json(answer->ids), chat["float32"]["greedy"]);
    EXPECT_EQ(answer->last.finish_reason(), "stop");
    EXPECT_EQ(answer->last.usage().prompt_tokens(), chat["ids"].size());
    EXPECT_THAT(chat["float32"]["text"].get<std::string>(),
                HasSubstr(answer->text));
    EXPECT_FALSE(answer->text.empty());
  }
}

TEST(ServeTest, TellsItsModelAndTokenizes) {
  ServeProcess server({"--spine", "bf16", "--context", "300"});
  grpc::ClientContext model_context;
  v1::Model model;
  ASSERT_TRUE(server.stub().GetModel(&model_context, {}, &model).ok());
  EXPECT_EQ(model.name(), "k3-nano");
  EXPECT_EQ(model.spine(), "cpu-bf16");
  EXPECT_EQ(model.vocab_size(), 4096u);
  EXPECT_EQ(model.context_tokens(), 300u);
  EXPECT_EQ(model.manifest_digest().size(), 64u);

  const Json prompt = Golden()["prompts"][0];
  grpc::ClientContext tokenize_context;
  v1::TokenizeRequest request;
  v1::TokenizeReply reply;
  request.set_text(prompt["text"]);
  ASSERT_TRUE(server.stub().Tokenize(&tokenize_context, request, &reply).ok());
  Json ids = prompt["ids"];
  ids.erase(0);  // BOS
  EXPECT_EQ(Json(std::vector<uint32_t>(reply.ids().begin(), reply.ids().end())),
            ids);
}

TEST(ServeTest, RefusesABadRequestAndServesOn) {
  ServeProcess server({"--context", "100"});
  EXPECT_EQ(Generate(server, IdsRequest({}, 2)).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Generate(server, IdsRequest({4096}, 2)).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Generate(server, IdsRequest(std::vector<uint32_t>(200, 3), 2))
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
  const absl::StatusOr<Generated> good =
      Generate(server, IdsRequest({3, 4}, 2));
  ASSERT_TRUE(good.ok()) << good.status();
  EXPECT_EQ(good->ids.size(), 2u);
}

TEST(ServeTest, SigtermLetsARunningRequestEnd) {
  ServeProcess server({"--stats"});
  v1::GenerateRequest request = IdsRequest({3, 4, 5}, 300);
  request.set_ignore_eos(true);
  grpc::ClientContext context;
  const auto reader = server.stub().Generate(&context, request);
  v1::GenerateReply reply;
  ASSERT_TRUE(reader->Read(&reply));
  server.process().Signal(SIGTERM);
  size_t tokens = 1;
  while (reader->Read(&reply)) tokens += reply.has_token() ? 1 : 0;
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(tokens, 300u);
  const auto code = server.process().Wait(absl::Minutes(1));
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 0);
  EXPECT_THAT(server.process().out(), HasSubstr("spine compute"));
}

TEST(ServeTest, StaysOnTheLoopbackInterface) {
  const ProcessResult result = RunDeltafin({"serve", "--listen", "0.0.0.0:0"});
  EXPECT_EQ(result.exit_code, 64);
  EXPECT_THAT(result.err, HasSubstr("use 127.0.0.1"));
}

}  // namespace
}  // namespace deltafin::testing
