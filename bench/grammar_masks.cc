// What holding answers to a schema takes: the mask of allowed tokens at a place
// that was not seen before, at one that was, and on the average of a text.

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "coordinator/frontend/grammar_constraint.h"
#include "coordinator/frontend/message_grammar.h"
#include "tests/testing/synthetic_vocabulary.h"

namespace deltafin::bench {
namespace {

struct Options {
  int vocabulary = testing::kFullVocabularySize;
  std::string model;
  int rounds = 5;
  bool json = false;
};

// A text that a schema allows, measured before each of its bytes from `begin`
// on.
struct Case {
  const char* name;
  const char* schema;
  const char* begin;
  const char* text;
};

constexpr char kPerson[] =
    R"({"type":"object","properties":{"name":{"type":"string"},"age":)"
    R"({"type":"integer","minimum":0,"maximum":150},"tags":{"type":"array",)"
    R"("items":{"enum":["new","old"]},"maxItems":3}},)"
    R"("required":["name","age"],"additionalProperties":false})";
constexpr char kSentence[] =
    "The quick brown fox, over 13 lazy dogs: Zo\xC3\xAB";

constexpr Case kCases[] = {
    {"object", kPerson, "",
     R"({"name": "Ada", "age": 36, "tags": ["new", "old"]})"},
    {"any JSON", R"({"type":"object"})", "",
     R"({"a": [1, 2.5, "text"], "b": {"c": null}})"},
    {"string", R"({"type":"string"})", "\"", kSentence},
    {"bounded string", R"({"type":"string","minLength":3,"maxLength":200})",
     "\"", kSentence},
    {"pattern", R"({"type":"string","pattern":"^[a-zA-Z ,:0-9\u00eb]{1,99}$"})",
     "\"", kSentence},
    {"any character", R"({"type":"string","pattern":"^.{1,200}$"})", "\"",
     kSentence},
};

// Of this thread alone.
double CpuMicros() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 +
         static_cast<double>(now.tv_nsec) / 1e3;
}

template <typename Work>
double MicrosOf(const Work& work) {
  const double since = CpuMicros();
  work();
  return CpuMicros() - since;
}

struct Times {
  std::vector<double> first;     // at each place, nothing else being known
  std::vector<double> again;     // at the same place
  std::vector<double> in_order;  // at each place after all before it
};

double Percentile(std::vector<double>& values, size_t percent) {
  std::sort(values.begin(), values.end());
  return values[(values.size() - 1) * percent / 100];
}

std::shared_ptr<const ByteGrammar> GrammarOf(const Case& of) {
  ChatRequest chat;
  chat.thinking = Thinking::kOff;
  chat.response_format = ResponseFormat::kJsonSchema;
  chat.response_schema_json = of.schema;
  std::string where;
  auto grammar = MakeMessageGrammar(
      chat, {"schema", "tools", "parameters", "choice"}, where);
  CHECK_OK(grammar.status());
  return *std::move(grammar);
}

void Accept(const Tokenizer& tokenizer, std::string_view text,
            GrammarConstraint& constraint) {
  for (const char& c : text) {
    constraint.Accept(*tokenizer.vocabulary().FindRank({&c, 1}));
  }
}

void Measure(const Case& of, const Tokenizer& tokenizer, Times& times) {
  const auto grammar = GrammarOf(of);
  const auto in_order = *GrammarConstraint::Create(grammar, tokenizer);
  const std::string begin = of.begin;
  const std::string text = of.text;
  Accept(tokenizer, begin, *in_order);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto alone = *GrammarConstraint::Create(grammar, tokenizer);
    Accept(tokenizer, begin + text.substr(0, i), *alone);
    const auto mask_of = [](GrammarConstraint& constraint) {
      CHECK_OK(constraint.Allowed().status());
    };
    times.first.push_back(MicrosOf([&] { mask_of(*alone); }));
    times.again.push_back(MicrosOf([&] { mask_of(*alone); }));
    times.in_order.push_back(MicrosOf([&] { mask_of(*in_order); }));
    Accept(tokenizer, text.substr(i, 1), *in_order);
  }
}

void Print(const Case& of, Times& times, bool json) {
  std::printf(
      json ? "{\"schema\": \"%s\", \"places\": %zu, \"first_p50_us\": %.1f, "
             "\"first_p99_us\": %.1f, \"in_order_p50_us\": %.1f, "
             "\"in_order_p99_us\": %.1f, \"again_p50_us\": %.1f, "
             "\"again_p99_us\": %.1f}\n"
           : "%-15s %7zu %9.1f %9.1f %9.1f %9.1f %9.1f %9.1f\n",
      of.name, times.first.size(), Percentile(times.first, 50),
      Percentile(times.first, 99), Percentile(times.in_order, 50),
      Percentile(times.in_order, 99), Percentile(times.again, 50),
      Percentile(times.again, 99));
}

absl::StatusOr<std::unique_ptr<Tokenizer>> MakeTokenizer(
    const Options& options) {
  if (options.model.empty()) {
    return std::make_unique<Tokenizer>(
        testing::SyntheticVocabulary(options.vocabulary));
  }
  return Tokenizer::Load(options.model, options.vocabulary);
}

absl::Status Run(const Options& options) {
  ASSIGN_OR_RETURN(const auto tokenizer, MakeTokenizer(options));
  const double tries = MicrosOf([&] { tokenizer->trie(); });
  if (!options.json) {
    std::printf("%d tokens, made ready in %.0f ms\n%-15s %7s %19s %19s %19s\n",
                tokenizer->vocabulary().size(), tries / 1e3, "schema", "places",
                "first p50, p99 us", "in order", "again");
  }
  for (const Case& of : kCases) {
    Times times;
    for (int round = 0; round < options.rounds; ++round) {
      Measure(of, *tokenizer, times);
    }
    Print(of, times, options.json);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace deltafin::bench

int main(int argc, char** argv) {
  deltafin::bench::Options options;
  CLI::App app("Microseconds to find the tokens that a schema allows");
  app.add_option("--vocabulary", options.vocabulary,
                 "Tokens: of the synthetic vocabulary, or in --model")
      ->check(CLI::Range(2048, 1'000'000));
  app.add_option("--model", options.model,
                 "Directory whose tokenizer is used instead");
  app.add_option("--rounds", options.rounds, "Times that each text is followed")
      ->check(CLI::Range(1, 1000));
  app.add_flag("--json", options.json, "One object a line");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = deltafin::bench::Run(options);
  if (!status.ok()) {
    std::fprintf(stderr, "grammar_masks: %s\n", status.ToString().c_str());
    return 1;
  }
  return 0;
}
