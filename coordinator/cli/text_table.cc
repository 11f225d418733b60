#include "coordinator/cli/text_table.h"

#include <algorithm>
#include <utility>

#include "common/base/printable_text.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {

TextTable::TextTable(std::vector<std::string> titles) {
  rows_.push_back(std::move(titles));
}

void TextTable::Add(std::vector<std::string> cells) {
  for (std::string& cell : cells) {
    if (cell.size() > kMaxCellBytes) {
      cell.resize(kMaxCellBytes);
      cell += "...";
    }
    cell = OneLine(cell);
  }
  rows_.push_back(std::move(cells));
}

std::string TextTable::ToString() const {
  std::vector<size_t> widths(rows_[0].size());
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], std::min(row[i].size(), kMaxWidth));
    }
  }
  std::string text;
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) {
      text += fmt::format("{:<{}}", row[i], widths[i] + 2);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  return text;
}

}  // namespace deltafin
