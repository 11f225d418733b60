#include "coordinator/frontend/json_grammar.h"

#include <utility>

#include "absl/container/flat_hash_map.h"

namespace deltafin {
namespace {

constexpr std::string_view kShortEscapes = "\"\\bfnrt";

}  // namespace

JsonGrammar::JsonGrammar(ByteGrammar& grammar)
    : grammar_(grammar),
      gap_(grammar.AddNode()),
      character_(grammar.AddNode()),
      raw_character_(grammar.AddNode()),
      any_string_(grammar.AddNode()),
      any_raw_string_(grammar.AddNode()),
      any_number_(grammar.AddNode()),
      any_integer_(grammar.AddNode()),
      any_value_(grammar.AddNode()),
      any_object_(grammar.AddNode()),
      any_array_(grammar.AddNode()) {
  GrammarNode blank = grammar_.AddNode();
  grammar_.SetFinal(gap_);
  grammar_.Symbol(gap_, '\n', blank);
  for (int i = 0; i < kMaxJsonIndentation; ++i) {
    grammar_.SetFinal(blank);
    const GrammarNode next = grammar_.AddNode();
    grammar_.OneOf(blank, " \t", next);
    blank = next;
  }
  grammar_.SetFinal(blank);
  grammar_.Symbol(gap_, ' ', blank);
  DefineStrings();
  DefineValue();
}

void JsonGrammar::DefineStrings() {
  const GrammarNode end = grammar_.AddNode();
  grammar_.SetFinal(end);
  QuotedCharacter(character_, Escapes::kAll, end);
  RawCharacter(raw_character_, end);
  const GrammarNode body = grammar_.AddNode();
  grammar_.Symbol(any_string_, '"', body);
  QuotedCharacter(body, Escapes::kAll, body);
  grammar_.Symbol(body, '"', end);
  grammar_.SetFinal(any_raw_string_);
  RawCharacter(any_raw_string_, any_raw_string_);
}

void JsonGrammar::DefineValue() {
  const GrammarNode end = grammar_.AddNode();
  grammar_.SetFinal(end);
  Number(any_number_, {}, end);
  Integer(any_integer_, {}, end);
  for (const GrammarNode rule :
       {any_object_, any_array_, any_string_, any_number_}) {
    grammar_.Call(any_value_, rule, end);
  }
  for (const char* word : {"true", "false", "null"}) {
    grammar_.Text(any_value_, word, end);
  }
  List(any_array_, any_value_, end);
  const GrammarNode first = grammar_.AddNode();
  const GrammarNode key = grammar_.AddNode();
  const GrammarNode colon = grammar_.AddNode();
  const GrammarNode value = grammar_.AddNode();
  const GrammarNode after = grammar_.AddNode();
  const GrammarNode more = grammar_.AddNode();
  const GrammarNode comma = grammar_.AddNode();
  grammar_.Symbol(any_object_, '{', first);
  Gap(first, key);
  grammar_.Symbol(key, '}', end);
  grammar_.Call(key, any_string_, colon);
  Colon(colon, value);
  grammar_.Call(value, any_value_, after);
  Gap(after, more);
  grammar_.Symbol(more, '}', end);
  grammar_.Symbol(more, ',', comma);
  const GrammarNode next_key = grammar_.AddNode();
  Gap(comma, next_key);
  grammar_.Call(next_key, any_string_, colon);
}

void JsonGrammar::MultiByteCharacter(GrammarNode from, GrammarNode to) {
  const GrammarNode last = grammar_.AddNode();
  const GrammarNode last_two = grammar_.AddNode();
  const GrammarNode last_three = grammar_.AddNode();
  grammar_.Symbols(last, 0x80, 0xBF, to);
  grammar_.Symbols(last_two, 0x80, 0xBF, last);
  grammar_.Symbols(last_three, 0x80, 0xBF, last_two);
  grammar_.Symbols(from, 0xC2, 0xDF, last);
  grammar_.Symbols(from, 0xE1, 0xEC, last_two);
  grammar_.Symbols(from, 0xEE, 0xEF, last_two);
  grammar_.Symbols(from, 0xF1, 0xF3, last_three);
  // What would be overlong, a surrogate or beyond Unicode is none.
  const auto narrow = [&](GrammarSymbol lead, GrammarSymbol first,
                          GrammarSymbol final, GrammarNode next) {
    const GrammarNode second = grammar_.AddNode();
    grammar_.Symbol(from, lead, second);
    grammar_.Symbols(second, first, final, next);
  };
  narrow(0xE0, 0xA0, 0xBF, last);
  narrow(0xED, 0x80, 0x9F, last);
  narrow(0xF0, 0x90, 0xBF, last_two);
  narrow(0xF4, 0x80, 0x8F, last_two);
}

void JsonGrammar::RawCharacter(GrammarNode from, GrammarNode to) {
  grammar_.Symbols(from, 0, 0x7F, to);
  MultiByteCharacter(from, to);
}

void JsonGrammar::QuotedCharacter(GrammarNode from, Escapes escapes,
                                  GrammarNode to) {
  grammar_.Symbols(from, ' ', '"' - 1, to);
  grammar_.Symbols(from, '"' + 1, '\\' - 1, to);
  grammar_.Symbols(from, '\\' + 1, 0x7F, to);
  MultiByteCharacter(from, to);
  const GrammarNode escape = grammar_.AddNode();
  grammar_.Symbol(from, '\\', escape);
  grammar_.OneOf(escape, kShortEscapes, to);
  if (escapes == Escapes::kShort) return;
  grammar_.Symbol(escape, '/', to);
  const GrammarNode first = grammar_.AddNode();
  const GrammarNode surrogate = grammar_.AddNode();
  grammar_.Symbol(escape, 'u', first);
  grammar_.Symbols(first, '0', '9', HexDigits(3, to));
  grammar_.OneOf(first, "abcefABCEF", HexDigits(3, to));
  grammar_.OneOf(first, "dD", surrogate);
  grammar_.Symbols(surrogate, '0', '7', HexDigits(2, to));
  // A high one goes with a low one.
  const GrammarNode pair = grammar_.AddNode();
  grammar_.OneOf(surrogate, "89abAB", HexDigits(2, pair));
  const GrammarNode low = grammar_.AddNode();
  const GrammarNode low_second = grammar_.AddNode();
  grammar_.Text(pair, "\\u", low);
  grammar_.OneOf(low, "dD", low_second);
  grammar_.OneOf(low_second, "cdefCDEF", HexDigits(2, to));
}

GrammarNode JsonGrammar::HexDigits(int count, GrammarNode to) {
  for (int i = 0; i < count; ++i) {
    const GrammarNode from = grammar_.AddNode();
    grammar_.Symbols(from, '0', '9', to);
    grammar_.Symbols(from, 'a', 'f', to);
    grammar_.Symbols(from, 'A', 'F', to);
    to = from;
  }
  return to;
}

void JsonGrammar::Gap(GrammarNode from, GrammarNode to) {
  grammar_.Call(from, gap_, to);
}

void JsonGrammar::Colon(GrammarNode from, GrammarNode to) {
  const GrammarNode before = grammar_.AddNode();
  const GrammarNode after = grammar_.AddNode();
  Gap(from, before);
  grammar_.Symbol(before, ':', after);
  Gap(after, to);
}

void JsonGrammar::List(GrammarNode from, GrammarNode item, GrammarNode to) {
  const GrammarNode first = grammar_.AddNode();
  const GrammarNode value = grammar_.AddNode();
  const GrammarNode after = grammar_.AddNode();
  const GrammarNode more = grammar_.AddNode();
  const GrammarNode comma = grammar_.AddNode();
  const GrammarNode next = grammar_.AddNode();
  grammar_.Symbol(from, '[', first);
  Gap(first, value);
  grammar_.Symbol(value, ']', to);
  grammar_.Call(value, item, after);
  Gap(after, more);
  grammar_.Symbol(more, ']', to);
  grammar_.Symbol(more, ',', comma);
  Gap(comma, next);
  grammar_.Call(next, item, after);
}

void JsonGrammar::String(GrammarNode from, const Repetition& length,
                         StringForm form, GrammarNode to) {
  const bool is_raw = form == StringForm::kRaw;
  const GrammarNode character = is_raw ? raw_character_ : character_;
  const GrammarNode end = is_raw ? to : grammar_.AddNode();
  if (!is_raw) grammar_.Symbol(end, '"', to);
  GrammarNode at = grammar_.AddNode();
  is_raw ? grammar_.Empty(from, at) : grammar_.Symbol(from, '"', at);
  const int64_t counted = length.most.value_or(length.least);
  for (int64_t i = 0; i < counted && !grammar_.is_too_large(); ++i) {
    if (i >= length.least) grammar_.Empty(at, end);
    const GrammarNode next = grammar_.AddNode();
    grammar_.Call(at, character, next);
    at = next;
  }
  grammar_.Empty(at, end);
  if (!length.most) grammar_.Call(at, character, at);
}

void JsonGrammar::Value(GrammarNode from, const JsonValue& value,
                        GrammarNode to) {
  switch (value.kind) {
    case JsonValue::Kind::kString:
      return grammar_.Text(from, QuoteJson(value.text), to);
    case JsonValue::Kind::kObject:
      return Members(from, value, to);
    case JsonValue::Kind::kArray:
      break;
    default:
      return grammar_.Text(from, value.text, to);
  }
  GrammarNode at = grammar_.AddNode();
  grammar_.Symbol(from, '[', at);
  for (const JsonValue& item : value.items) {
    if (&item != value.items.data()) at = Comma(at);
    const GrammarNode before = grammar_.AddNode();
    const GrammarNode after = grammar_.AddNode();
    Gap(at, before);
    Value(before, item, after);
    at = after;
  }
  const GrammarNode end = grammar_.AddNode();
  Gap(at, end);
  grammar_.Symbol(end, ']', to);
}

GrammarNode JsonGrammar::Comma(GrammarNode from) {
  const GrammarNode before = grammar_.AddNode();
  const GrammarNode after = grammar_.AddNode();
  Gap(from, before);
  grammar_.Symbol(before, ',', after);
  return after;
}

void JsonGrammar::Members(GrammarNode from, const JsonValue& object,
                          GrammarNode to) {
  GrammarNode at = grammar_.AddNode();
  grammar_.Symbol(from, '{', at);
  for (const auto& [key, value] : object.members) {
    if (&key != &object.members.data()->key) at = Comma(at);
    const GrammarNode before = grammar_.AddNode();
    const GrammarNode colon = grammar_.AddNode();
    const GrammarNode start = grammar_.AddNode();
    const GrammarNode after = grammar_.AddNode();
    Gap(at, before);
    grammar_.Text(before, QuoteJson(key), colon);
    Colon(colon, start);
    Value(start, value, after);
    at = after;
  }
  const GrammarNode end = grammar_.AddNode();
  Gap(at, end);
  grammar_.Symbol(end, '}', to);
}

// Follows the names in a tree beside the characters of a string, so that what
// leaves the tree is any string, and what stays in it must not end at a name.
// Each key has one spelling here, since only short escapes are allowed.
void JsonGrammar::OtherKey(GrammarNode from,
                           const std::vector<std::string_view>& names,
                           GrammarNode to) {
  struct Branch {
    GrammarNode characters = 0;  // the same place without the tree
    absl::flat_hash_map<uint8_t, size_t> next;
    bool is_name = false;
  };
  const GrammarNode body = grammar_.AddNode();
  QuotedCharacter(body, Escapes::kShort, body);
  grammar_.Symbol(body, '"', to);
  std::vector<Branch> tree = {{body, {}, false}};
  for (const std::string_view name : names) {
    const std::string quoted = QuoteJson(name);
    size_t at = 0;
    bool can_be_spelled = true;
    for (size_t i = 1; i + 1 < quoted.size() && can_be_spelled; ++i) {
      const auto byte = static_cast<uint8_t>(quoted[i]);
      const auto step = grammar_.Step(tree[at].characters, byte);
      can_be_spelled = step.has_value();
      if (!can_be_spelled) break;
      const auto [next, is_new] = tree[at].next.try_emplace(byte, tree.size());
      at = next->second;
      if (is_new) tree.push_back({*step, {}, false});
    }
    if (can_be_spelled) tree[at].is_name = true;
  }
  std::vector<GrammarNode> nodes;
  for (size_t i = 0; i < tree.size(); ++i) nodes.push_back(grammar_.AddNode());
  grammar_.Symbol(from, '"', nodes[0]);
  for (size_t i = 0; i < tree.size(); ++i) {
    const auto target_of = [&](int byte) -> std::optional<GrammarNode> {
      const auto step = grammar_.Step(tree[i].characters, byte);
      if (!step || (*step == to && tree[i].is_name)) return std::nullopt;
      const auto next = tree[i].next.find(byte);
      return next == tree[i].next.end() ? *step : nodes[next->second];
    };
    for (int first = 0, last = 0; first < 256; first = last + 1) {
      const auto target = target_of(first);
      last = first;
      while (last < 255 && target_of(last + 1) == target) ++last;
      if (target) grammar_.Symbols(nodes[i], first, last, *target);
    }
  }
}

}  // namespace deltafin
