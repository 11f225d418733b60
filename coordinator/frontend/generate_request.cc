#include "coordinator/frontend/generate_request.h"

#include <limits>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "coordinator/engine/logprobs.h"
#include "coordinator/frontend/chat_template.h"
#include "coordinator/frontend/grammar_constraint.h"
#include "coordinator/frontend/message_grammar.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

// A count that travels as uint32 and is an int here.
absl::StatusOr<int> ParseCount(uint32_t value, std::string_view field) {
  if (value > static_cast<uint32_t>(std::numeric_limits<int>::max())) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: {} is over {}", field, value, std::numeric_limits<int>::max()));
  }
  return static_cast<int>(value);
}

absl::StatusOr<SamplingOptions> ParseSampling(const v1::Sampling& wire) {
  SamplingOptions sampling;
  sampling.temperature = wire.temperature();
  sampling.top_p = wire.top_p() == 0 ? 1 : wire.top_p();
  ASSIGN_OR_RETURN(sampling.top_k, ParseCount(wire.top_k(), "sampling.top_k"));
  sampling.min_p = wire.min_p();
  sampling.seed = wire.seed();
  sampling.presence_penalty = wire.presence_penalty();
  sampling.frequency_penalty = wire.frequency_penalty();
  sampling.repetition_penalty =
      wire.repetition_penalty() == 0 ? 1 : wire.repetition_penalty();
  sampling.choice = wire.choice();
  for (int i = 0; i < wire.logit_bias_size(); ++i) {
    ASSIGN_OR_RETURN(const int id,
                     ParseCount(wire.logit_bias(i).id(),
                                fmt::format("sampling.logit_bias[{}].id", i)));
    sampling.logit_bias.emplace_back(id, wire.logit_bias(i).bias());
  }
  return sampling;
}

absl::StatusOr<int> ParseLength(const v1::GenerateRequest& request,
                                int default_tokens) {
  ASSIGN_OR_RETURN(const int tokens,
                   ParseCount(request.max_new_tokens(), "max_new_tokens"));
  if (!request.prompt_only()) return tokens == 0 ? default_tokens : tokens;
  if (tokens == 0) return 0;
  return absl::InvalidArgumentError(
      "prompt_only: generates nothing; leave max_new_tokens out");
}

absl::Status HoldToFormat(const ChatRequest& chat, const Tokenizer& tokenizer,
                          bool ignore_eos, GenerationRequest& generation) {
  std::string where;
  const auto grammar =
      MakeMessageGrammar(chat,
                         {"chat.response_schema_json", "chat.tools_json",
                          "function.parameters", "chat.tool_name"},
                         where);
  if (!grammar.ok()) return AddContext(grammar.status(), where);
  if (*grammar == nullptr) return absl::OkStatus();
  if (ignore_eos) {
    return absl::InvalidArgumentError(
        "ignore_eos: an answer in a given format ends where the format does");
  }
  ASSIGN_OR_RETURN(generation.constraint,
                   GrammarConstraint::Create(*grammar, tokenizer));
  return absl::OkStatus();
}

// The prompt's ids; sets text.chat, the constraint and what is shared for a
// chat.
absl::StatusOr<std::vector<int32_t>> ParsePrompt(
    const v1::GenerateRequest& request, const Tokenizer& tokenizer,
    ParsedGenerateRequest& parsed) {
  switch (request.prompt_case()) {
    case v1::GenerateRequest::kText: {
      auto ids = tokenizer.Encode(request.text());
      if (!ids.ok()) return AddContext(ids.status(), "text");
      return ids;
    }
    case v1::GenerateRequest::kIds:
      return ParseIds(request.ids().ids(), "ids.ids");
    case v1::GenerateRequest::kChat: {
      if (request.add_bos()) {
        return absl::InvalidArgumentError(
            "add_bos: the chat format has no beginning-of-sequence token");
      }
      ASSIGN_OR_RETURN(const ChatRequest chat, ParseChat(request.chat()));
      parsed.text.chat = InitialChannel(chat.thinking);
      RETURN_IF_ERROR(HoldToFormat(chat, tokenizer, request.ignore_eos(),
                                   parsed.generation));
      auto ids = EncodeChat(tokenizer, chat);
      if (!ids.ok()) return AddContext(ids.status(), "chat");
      parsed.generation.shared_prefix_tokens =
          CountSharedTokens(tokenizer, chat, *ids);
      return ids;
    }
    case v1::GenerateRequest::PROMPT_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "prompt: one of text, ids and chat is needed");
}

}  // namespace

absl::StatusOr<std::vector<int32_t>> ParseIds(
    const google::protobuf::RepeatedField<uint32_t>& ids,
    std::string_view field) {
  std::vector<int32_t> parsed;
  for (int i = 0; i < ids.size(); ++i) {
    ASSIGN_OR_RETURN(const int id,
                     ParseCount(ids[i], fmt::format("{}[{}]", field, i)));
    parsed.push_back(id);
  }
  return parsed;
}

absl::StatusOr<ParsedGenerateRequest> ParseGenerateRequest(
    const v1::GenerateRequest& request, const Tokenizer& tokenizer,
    const GenerateDefaults& defaults) {
  ParsedGenerateRequest parsed;
  GenerationRequest& generation = parsed.generation;
  ASSIGN_OR_RETURN(generation.prompt_ids,
                   ParsePrompt(request, tokenizer, parsed));
  if (request.add_bos()) {
    generation.prompt_ids.insert(generation.prompt_ids.begin(),
                                 defaults.bos_token_id);
  }
  ASSIGN_OR_RETURN(generation.max_new_tokens,
                   ParseLength(request, defaults.max_new_tokens));
  if (request.logprobs() > kMaxTopLogprobs) {
    return absl::InvalidArgumentError(fmt::format(
        "logprobs: {} is over {}", request.logprobs(), kMaxTopLogprobs));
  }
  generation.top_logprobs = static_cast<int>(request.logprobs());
  generation.want_logprobs = request.want_logprobs() || request.logprobs() > 0;
  generation.want_all_logits = request.prompt_logprobs();
  generation.ignore_eos = request.ignore_eos();
  ASSIGN_OR_RETURN(generation.sampling, ParseSampling(request.sampling()));
  if (!request.speculate().empty()) {
    generation.speculation = ParseSpeculationMode(request.speculate());
    if (!generation.speculation) {
      return absl::InvalidArgumentError(
          fmt::format("speculate: \"{}\" is not one of off, auto, force",
                      request.speculate()));
    }
  }
  parsed.text.stop.assign(request.sampling().stop().begin(),
                          request.sampling().stop().end());
  return parsed;
}

}  // namespace deltafin
