// coordinator/cli/text_table.h
//
// Lines of text in columns as wide as they need. Thread-compatible.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace deltafin {

class TextTable {
 public:
  static constexpr size_t kMaxCellBytes = 1000;
  // Columns are no wider: what is longer pushes its own line's rest aside.
  static constexpr size_t kMaxWidth = 100;

  explicit TextTable(std::vector<std::string> titles);

  // REQUIRES: as many as titles. Control characters, which a node's name or
  // error may have, become '?'; what is longer than kMaxCellBytes is cut.
  void Add(std::vector<std::string> cells);
  // Two spaces between columns, none at the end of a line.
  std::string ToString() const;

 private:
  std::vector<std::vector<std::string>> rows_;  // the titles come first
};

}  // namespace deltafin
