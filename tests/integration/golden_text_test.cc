// k3-nano continues the prompts of its golden file with exactly the reference's
// tokens, through the program.

#include <gtest/gtest.h>

#include <string>

#include "tests/integration/deltafin_program.h"

namespace deltafin::testing {
namespace {

using Json = nlohmann::json;

Json Golden() { return ReadJsonFile(NanoModelDir() + "/eval/golden.json"); }

TEST(GoldenTextTest, ContinuesPlainPromptsLikeTheReference) {
  const Json golden = Golden();
  ASSERT_EQ(golden["prompts"].size(), 6);
  for (const Json& prompt : golden["prompts"]) {
    const Json report = RunDeltafinJson(
        {"run", "--prompt", prompt["text"], "--bos", "--max-new-tokens", "64"});
    EXPECT_EQ(report["prompt_ids"], prompt["ids"]);
    EXPECT_EQ(report["output_ids"], prompt["float32"]["greedy"]);
    EXPECT_EQ(report["text"], prompt["float32"]["text"]);
  }
}

// The flags that render the conversation, or nothing where run has none.
Words ChatFlags(const Json& chat) {
  const Json& messages = chat["messages"];
  Words words{"run", "--chat", "--thinking",
              chat["thinking"] ? chat["effort"].get<std::string>() : "off"};
  if (messages.size() == 2 && messages[0]["role"] == "system") {
    words = Join(words, {"--system", messages[0]["content"]});
  } else if (messages.size() != 1) {
    return {};
  }
  return Join(words, {"--prompt", messages.back()["content"]});
}

TEST(GoldenTextTest, AnswersChatPromptsLikeTheReference) {
  const Json golden = Golden();
  int num_run = 0;
  for (const Json& chat : golden["chat_prompts"]) {
    const Words flags = ChatFlags(chat);
    if (flags.empty()) continue;  // several turns: serve_test
    const Json report =
        RunDeltafinJson(Join(flags, {"--max-new-tokens", "64"}));
    EXPECT_EQ(report["prompt_ids"], chat["ids"]);
    EXPECT_EQ(report["output_ids"], chat["float32"]["greedy"]);
    EXPECT_EQ(report["finish_reason"], "stop");
    ++num_run;
  }
  EXPECT_EQ(num_run, 3);
}

TEST(GoldenTextTest, ContinuesIdsOfAConversationOfSeveralTurns) {
  const Json chat = Golden()["chat_prompts"][3];
  std::string ids = chat["ids"].dump();
  ids = ids.substr(1, ids.size() - 2);
  const Json report =
      RunDeltafinJson({"run", "--prompt-ids", ids, "--max-new-tokens", "64"});
  EXPECT_EQ(report["output_ids"], chat["float32"]["greedy"]);
}

}  // namespace
}  // namespace deltafin::testing
