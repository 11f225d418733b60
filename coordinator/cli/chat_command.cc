#include "coordinator/cli/chat_command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/printable_text.h"
#include "common/base/status_macros.h"
#include "common/base/terminal_colours.h"
#include "common/net/exit_code.h"
#include "coordinator/cli/generation.h"
#include "coordinator/cli/prompt_flags.h"
#include "coordinator/cli/standard_output.h"
#include "coordinator/coordinator.h"

namespace deltafin {
namespace {

constexpr char kChatFooter[] = R"(
Type a message and Enter. /reset forgets the conversation, /system TEXT sets
instructions, /quit or Ctrl-D ends; Ctrl-C stops a reply, and ends the program
between replies.

Examples:
  deltafin chat
  deltafin chat --model /models/Kimi-K3 --thinking low --system "Be brief.")";

constexpr char kDim[] = "\x1b[2m";
constexpr char kPlain[] = "\x1b[0m";

// What the user sees of one reply. Thinking is shown on terminals only.
class ReplyPrinter {
 public:
  ReplyPrinter(bool is_terminal, bool has_colours)
      : is_terminal_(is_terminal), has_colours_(is_terminal && has_colours) {}

  // False when nobody reads.
  bool Print(std::string_view content, std::string_view reasoning) {
    if (is_terminal_ && !reasoning.empty()) {
      SetDim(true);
      Write(reasoning);
    }
    if (!content.empty()) {
      if (is_dim_) Write("\n");
      SetDim(false);
      Write(content);
    }
    return FlushOutput().ok();
  }
  void End() {
    SetDim(false);
    Write("\n");
    std::fflush(stdout);
  }

 private:
  static void Write(std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
  }
  void SetDim(bool dim) {
    if (has_colours_ && dim != is_dim_) Write(dim ? kDim : kPlain);
    is_dim_ = dim;
  }

  const bool is_terminal_;
  const bool has_colours_;
  bool is_dim_ = false;
};

void Notice(const std::string& text) {
  if (text.empty()) return;
  std::fprintf(stderr, "(%s)\n", PrintableLines(text).c_str());
}

// The next line of standard input, asked for on a terminal. False at its end.
bool ReadLine(std::string& line) {
  if (isatty(STDIN_FILENO) != 0) {
    std::fputs("> ", stdout);
    std::fflush(stdout);
  }
  return static_cast<bool>(std::getline(std::cin, line));
}

// What a reply needs besides the conversation.
struct ReplyContext {
  Generation& generation;
  const Tokenizer& tokenizer;
  GenerationRequest sampling;  // without a prompt
  std::vector<std::string> stop;
};

// Streams the answer to the last message.
absl::StatusOr<GenerationOutput> Generate(const ChatRequest& chat,
                                          ReplyContext& context) {
  ASSIGN_OR_RETURN(Prompt prompt, ChatPrompt(chat, context.tokenizer));
  GenerationRequest request = context.sampling;
  request.prompt_ids = std::move(prompt.ids);
  request.shared_prefix_tokens = prompt.shared_tokens;
  ReplyPrinter printer(isatty(STDOUT_FILENO) != 0, WantsColours());
  GenerationCallbacks callbacks;
  callbacks.on_text = [&](std::string_view content,
                          std::string_view reasoning) {
    if (!printer.Print(content, reasoning)) context.generation.Cancel();
  };
  absl::StatusOr<GenerationOutput> output = context.generation.Run(
      std::move(request), {prompt.chat, context.stop}, std::move(callbacks));
  printer.End();
  return output;
}

// Errors end a conversation that is read from a file or a pipe.
absl::Status Reply(ChatSession& session, ReplyContext& context) {
  absl::StatusOr<GenerationOutput> output =
      Generate(session.request(), context);
  if (output.ok()) {
    session.Answer(std::move(output->text), std::move(output->reasoning));
    if (output->result.finish_reason == FinishReason::kLength) {
      Notice("cut at --max-new-tokens or --context");
    }
    return absl::OkStatus();
  }
  if (isatty(STDIN_FILENO) == 0) return output.status();
  session.Forget();
  const std::string why = absl::IsCancelled(output.status())
                              ? "stopped"
                              : std::string(output.status().message());
  Notice(why + "; the message is forgotten");
  return absl::OkStatus();
}

}  // namespace

ChatCommand::ChatCommand(CLI::App& app) {
  app.footer(kChatFooter);
  app.add_option("--system", system_, "Instructions that come first");
  app.add_option("--thinking", thinking_,
                 "How much to think: low, high, max or off")
      ->capture_default_str();
  generation_flags_.AddTo(app);
  coordinator_flags_.AddTo(app);
}

absl::Status ChatCommand::Run(TerminationSignal& signals) {
  RETURN_IF_ERROR(CheckSystem(system_));
  ASSIGN_OR_RETURN(const Thinking thinking, ParseThinking(thinking_));
  ASSIGN_OR_RETURN(const GenerationRequest sampling,
                   generation_flags_.Request());
  ASSIGN_OR_RETURN(CoordinatorOptions options, coordinator_flags_.Options());
  options.max_sequences = 1;
  Coordinator coordinator(std::move(options));
  Generation generation(coordinator);
  const SignalHandling handling(signals, [&generation](int signal) {
    return signal == SIGINT && generation.Cancel();
  });
  RETURN_IF_ERROR(coordinator.Init());
  RETURN_IF_ERROR(coordinator.Start());
  ReplyContext context{generation, coordinator.tokenizer(), sampling,
                       generation_flags_.stop_strings()};
  ChatSession session(system_, thinking);
  std::string line;
  while (ReadLine(line)) {
    const ChatAction action = session.TakeLine(line);
    Notice(session.notice());
    if (action == ChatAction::kQuit) break;
    absl::Status status;
    if (action == ChatAction::kSay) status = Reply(session, context);
    RETURN_IF_ERROR(FlushOutput());
    if (absl::IsCancelled(status)) return InterruptedError(signals.last());
    RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

}  // namespace deltafin
