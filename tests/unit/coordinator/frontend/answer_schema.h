// tests/unit/coordinator/frontend/answer_schema.h
//
// The types of docs/http_answers.md, which says how they are written, and
// whether JSON is of such a type.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace deltafin {

class AnswerSchema {
 public:
  using Json = nlohmann::json;

  // Every "### `Name`" of the page with the block of JSON after it.
  explicit AnswerSchema(std::string_view page);

  // Where the value is not of the type, and how; empty where it is.
  std::string Mismatch(const Json& value, const std::string& type);

  // Members and words of all types that no value had yet.
  std::vector<std::string> Unseen() const;

 private:
  // Members and words, as "Type.member" and "Type.member='word'".
  using Seen = std::set<std::string>;

  std::string CheckWords(const Json& value, const std::string& words,
                         const std::string& path, Seen& seen) const;
  std::string CheckWord(const Json& value, const std::string& word,
                        const std::string& path, Seen& seen) const;
  std::string CheckMembers(const Json& value, const Json& type,
                           const std::string& path, Seen& seen) const;
  std::string Check(const Json& value, const Json& type,
                    const std::string& path, Seen& seen) const;
  void AddAll(const Json& type, const std::string& path, Seen& all) const;

  std::map<std::string, Json> types_;
  Seen seen_;
};

}  // namespace deltafin
