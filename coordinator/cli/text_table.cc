#include "coordinator/cli/text_table.h"

#include <algorithm>
#include <utility>

#include "spdlog/fmt/fmt.h"

namespace deltafin {

TextTable::TextTable(std::vector<std::string> titles) {
  rows_.push_back(std::move(titles));
}

void TextTable::Add(std::vector<std::string> cells) {
  for (std::string& cell : cells) {
    std::replace_if(
        cell.begin(), cell.end(),
        [](char c) { return (c >= 0 && c < ' ') || c == 0x7f; }, '?');
  }
  rows_.push_back(std::move(cells));
}

std::string TextTable::ToString() const {
  std::vector<size_t> widths(rows_[0].size());
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
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
