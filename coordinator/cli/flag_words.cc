#include "coordinator/cli/flag_words.h"

#include <utility>

namespace deltafin {
namespace {

class WordSplitter {
 public:
  void Take(char c) {
    if (escaped_) {
      Append(c);
      escaped_ = false;
    } else if (c == '\\' && quote_ != '\'') {
      escaped_ = true;
    } else if (quote_ != 0) {
      if (c == quote_) {
        quote_ = 0;
      } else {
        Append(c);
      }
    } else if (c == '\'' || c == '"') {
      quote_ = c;
      in_word_ = true;  // "" is a word
    } else if (c == ' ' || c == '\t' || c == '\n') {
      EndWord();
    } else {
      Append(c);
    }
  }

  absl::StatusOr<std::vector<std::string>> Finish() {
    if (quote_ != 0 || escaped_) {
      return absl::InvalidArgumentError("a quote is not closed");
    }
    EndWord();
    return std::move(words_);
  }

 private:
  void Append(char c) {
    word_.push_back(c);
    in_word_ = true;
  }
  void EndWord() {
    if (in_word_) words_.push_back(std::exchange(word_, {}));
    in_word_ = false;
  }

  std::vector<std::string> words_;
  std::string word_;
  bool in_word_ = false;
  bool escaped_ = false;
  char quote_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<std::string>> SplitFlagWords(std::string_view line) {
  WordSplitter splitter;
  for (const char c : line) splitter.Take(c);
  return splitter.Finish();
}

}  // namespace deltafin
