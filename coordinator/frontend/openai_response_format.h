// coordinator/frontend/openai_response_format.h
//
// The answer of /v1/responses: items of reasoning, text and function calls, one
// after the other.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/frontend/openai_answer.h"

namespace deltafin {

class ResponsesFormat final : public AnswerFormat {
 public:
  // echo: the members of the response that only repeat the request, as JSON:
  // `"temperature":0,...`; see ResponseEcho.
  ResponsesFormat(AnswerIdentity identity, std::string echo);

  std::vector<ServerEvent> Begin() override;
  std::vector<ServerEvent> Piece(int choice, const ChoiceText& piece) override;
  std::vector<ServerEvent> ChoiceEnd(int choice, FinishReason reason) override;
  std::vector<ServerEvent> End(const AnswerUsage& usage) override;
  std::vector<ServerEvent> Error(const absl::Status& status) override;
  std::string Whole(std::span<const Choice> choices,
                    const AnswerUsage& usage) const override;

 private:
  enum class ItemKind : uint8_t { kNone, kReasoning, kMessage, kCall };

  // The item that is being written.
  struct Item {
    ItemKind kind = ItemKind::kNone;
    std::string name;  // kCall
    std::string text;  // or arguments
  };

  void Open(ItemKind kind, std::string name);
  void AddText(std::string_view text);
  void Close(bool is_cut);
  // The event with its type, its number and these members.
  void Say(std::string_view type, std::string_view members);
  std::string Place() const;  // members that tell where in the output
  std::string ItemId() const;
  std::string ItemJson(std::string_view status) const;
  std::string PartJson() const;
  std::string ResponseJson(std::string_view status, std::string_view usage,
                           std::string_view error) const;
  // `"response":{...}`
  std::string ResponseMember(std::string_view status, std::string_view usage,
                             std::string_view error) const;
  std::vector<ServerEvent> TakeEvents();

  const AnswerIdentity identity_;
  const std::string echo_;
  Item item_;
  std::vector<std::string> items_;  // complete, as JSON
  int num_calls_ = 0;
  bool is_cut_ = false;
  int64_t num_events_ = 0;
  std::vector<ServerEvent> events_;  // not taken yet
};

struct OpenAiRequest;
std::string ResponseEcho(const OpenAiRequest& request);

}  // namespace deltafin
