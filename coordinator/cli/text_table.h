// coordinator/cli/text_table.h
//
// Lines of text in columns as wide as they need. Thread-compatible.
#pragma once

#include <string>
#include <vector>

namespace deltafin {

class TextTable {
 public:
  explicit TextTable(std::vector<std::string> titles);

  // REQUIRES: as many as titles. Control characters, which a node's name or
  // error may have, become '?'.
  void Add(std::vector<std::string> cells);
  // Two spaces between columns, none at the end of a line.
  std::string ToString() const;

 private:
  std::vector<std::vector<std::string>> rows_;  // the titles come first
};

}  // namespace deltafin
