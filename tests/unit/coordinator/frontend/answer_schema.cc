#include "tests/unit/coordinator/frontend/answer_schema.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_split.h"

namespace deltafin {
namespace {

using Json = nlohmann::json;

bool IsLiteral(const std::string& word) { return word.front() == '\''; }

std::vector<std::string> Words(const std::string& words) {
  return absl::StrSplit(words, " | ");
}

bool IsPrimitive(const Json& value, const std::string& word) {
  if (word == "string") return value.is_string();
  if (word == "integer") return value.is_number_integer();
  if (word == "number") return value.is_number();
  if (word == "boolean") return value.is_boolean();
  if (word == "null") return value.is_null();
  if (word == "[]") return value.is_array() && value.empty();
  return word == "anything";
}

std::string NameOf(const std::string& member) {
  return member.ends_with('?') ? member.substr(0, member.size() - 1) : member;
}

}  // namespace

AnswerSchema::AnswerSchema(std::string_view page) {
  constexpr std::string_view kName = "### `";
  constexpr std::string_view kBlock = "```json\n";
  size_t at = 0;
  while ((at = page.find(kName, at)) != std::string_view::npos) {
    at += kName.size();
    const std::string name(page.substr(at, page.find('`', at) - at));
    const size_t begin = page.find(kBlock, at) + kBlock.size();
    const size_t end = page.find("\n```", begin);
    types_[name] = Json::parse(page.substr(begin, end - begin));
  }
}

std::string AnswerSchema::Mismatch(const Json& value, const std::string& type) {
  Seen seen;
  const std::string mismatch = CheckWord(value, type, type, seen);
  if (mismatch.empty()) seen_.merge(seen);
  return mismatch;
}

std::vector<std::string> AnswerSchema::Unseen() const {
  Seen all;
  for (const auto& [name, type] : types_) AddAll(type, name, all);
  std::vector<std::string> unseen;
  std::set_difference(all.begin(), all.end(), seen_.begin(), seen_.end(),
                      std::back_inserter(unseen));
  return unseen;
}

void AnswerSchema::AddAll(const Json& type, const std::string& path,
                          Seen& all) const {
  if (type.is_string()) {
    for (const std::string& word : Words(type)) {
      if (IsLiteral(word)) all.insert(path + "=" + word);
    }
    return;
  }
  for (const auto& [member, inner] : type.items()) {
    const std::string below = path + "." + NameOf(member);
    if (member != "*") all.insert(below);
    AddAll(inner, below, all);
  }
}

std::string AnswerSchema::Check(const Json& value, const Json& type,
                                const std::string& path, Seen& seen) const {
  return type.is_string() ? CheckWords(value, type, path, seen)
                          : CheckMembers(value, type, path, seen);
}

std::string AnswerSchema::CheckWords(const Json& value,
                                     const std::string& words,
                                     const std::string& path,
                                     Seen& seen) const {
  std::string mismatch;
  for (const std::string& word : Words(words)) {
    Seen with = seen;
    const std::string found = CheckWord(value, word, path, with);
    if (found.empty()) {
      seen = std::move(with);
      return "";
    }
    mismatch += found + "; ";
  }
  return mismatch;
}

std::string AnswerSchema::CheckWord(const Json& value, const std::string& word,
                                    const std::string& path, Seen& seen) const {
  const std::string mismatch = path + ": " + value.dump() + " is no " + word;
  if (IsLiteral(word)) {
    seen.insert(path + "=" + word);
    return value == word.substr(1, word.size() - 2) ? "" : mismatch;
  }
  if (const auto type = types_.find(word); type != types_.end()) {
    return Check(value, type->second, word, seen);
  }
  if (!word.ends_with("[]") || word == "[]") {
    return IsPrimitive(value, word) ? "" : mismatch;
  }
  if (!value.is_array()) return mismatch;
  for (const Json& item : value) {
    const std::string inner =
        CheckWord(item, word.substr(0, word.size() - 2), path, seen);
    if (!inner.empty()) return inner;
  }
  return "";
}

std::string AnswerSchema::CheckMembers(const Json& value, const Json& type,
                                       const std::string& path,
                                       Seen& seen) const {
  if (!value.is_object()) return path + ": " + value.dump() + " is no object";
  std::set<std::string> unknown;
  for (const auto& [name, inner] : value.items()) unknown.insert(name);
  for (const auto& [member, inner] : type.items()) {
    const std::string name = NameOf(member);
    const std::string below = path + "." + name;
    if (member == "*") unknown.clear();
    for (const auto& [given, inside] : value.items()) {
      if (member != "*" && given != name) continue;
      unknown.erase(given);
      seen.insert(below);
      const std::string mismatch = Check(inside, inner, below, seen);
      if (!mismatch.empty()) return mismatch;
    }
    if (member == "*" || member.ends_with('?') || value.contains(name)) {
      continue;
    }
    return below + " is missing";
  }
  return unknown.empty() ? "" : path + "." + *unknown.begin() + " is unknown";
}

}  // namespace deltafin
