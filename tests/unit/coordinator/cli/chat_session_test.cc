#include "coordinator/cli/chat_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace deltafin {
namespace {

using ::testing::HasSubstr;

std::string Text(const ChatMessage& message) { return message.content.at(0); }

TEST(ChatSessionTest, KeepsTheConversation) {
  ChatSession session("Be brief.", Thinking::kLow);
  EXPECT_EQ(session.TakeLine("  Hello \n"), ChatAction::kSay);
  session.Answer("Hi.", "a greeting");
  EXPECT_EQ(session.TakeLine("And you?"), ChatAction::kSay);
  const auto& messages = session.request().messages;
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_EQ(messages[0].role, ChatRole::kSystem);
  EXPECT_EQ(Text(messages[1]), "Hello");
  EXPECT_EQ(messages[2].role, ChatRole::kAssistant);
  EXPECT_EQ(messages[2].reasoning, "a greeting");
  EXPECT_EQ(Text(messages[3]), "And you?");
  EXPECT_EQ(session.request().thinking, Thinking::kLow);
}

TEST(ChatSessionTest, ForgetTakesBackTheLastMessage) {
  ChatSession session("", Thinking::kMax);
  session.TakeLine("Hello");
  session.Forget();
  EXPECT_TRUE(session.request().messages.empty());
}

TEST(ChatSessionTest, ResetKeepsTheInstructions) {
  ChatSession session("Be brief.", Thinking::kMax);
  session.TakeLine("Hello");
  EXPECT_EQ(session.TakeLine("/reset"), ChatAction::kNone);
  ASSERT_EQ(session.request().messages.size(), 1u);
  EXPECT_EQ(Text(session.request().messages[0]), "Be brief.");
}

TEST(ChatSessionTest, SystemBeginsAnew) {
  ChatSession session("", Thinking::kMax);
  session.TakeLine("Hello");
  EXPECT_EQ(session.TakeLine("/system Speak in rhymes."), ChatAction::kNone);
  ASSERT_EQ(session.request().messages.size(), 1u);
  EXPECT_EQ(Text(session.request().messages[0]), "Speak in rhymes.");
  session.TakeLine("/system");
  EXPECT_TRUE(session.request().messages.empty());
}

TEST(ChatSessionTest, QuitEndsAndUnknownCommandsExplain) {
  ChatSession session("", Thinking::kMax);
  EXPECT_EQ(session.TakeLine("/quit"), ChatAction::kQuit);
  EXPECT_EQ(session.TakeLine("/what"), ChatAction::kNone);
  EXPECT_THAT(session.notice(), HasSubstr("/reset"));
  EXPECT_EQ(session.TakeLine("   "), ChatAction::kNone);
  EXPECT_EQ(session.notice(), "");
}

}  // namespace
}  // namespace deltafin
