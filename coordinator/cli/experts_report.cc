#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "common/base/memory_budget.h"
#include "common/base/printable_text.h"
#include "coordinator/cli/experts_command.h"
#include "coordinator/cli/text_table.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

using Json = nlohmann::ordered_json;

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
}

struct HotExpert {
  ExpertKey key;
  double uses = 0;  // now
  bool is_held = false;
};

std::vector<HotExpert> HottestOf(const LedgerContents& ledger, int hottest) {
  std::vector<HotExpert> all;
  for (const ExpertUse& use : ledger.heat.uses) {
    all.push_back({use.expert, std::exp2(use.heat - ledger.heat.now),
                   ledger.held.contains(use.expert)});
  }
  const size_t count = std::min<size_t>(all.size(), hottest);
  std::partial_sort(all.begin(), all.begin() + count, all.end(),
                    [](const HotExpert& a, const HotExpert& b) {
                      return a.uses != b.uses ? a.uses > b.uses : a.key < b.key;
                    });
  all.resize(count);
  return all;
}

}  // namespace

std::string StorageTable(const v1::StorageReport& report) {
  return fmt::format(
      "folder   {}\n"
      "experts  {} of {} complete, {} in part, {}{}\n"
      "quota    {}\n"
      "free     {}\n",
      OneLine(report.folder()), report.complete_experts(), report.all_experts(),
      report.held_experts() - report.complete_experts(),
      FormatByteSize(report.held_bytes()),
      report.removed_experts() == 0
          ? ""
          : fmt::format("; {} removed", report.removed_experts()),
      report.unlimited() ? "none" : FormatByteSize(report.quota_bytes()),
      FormatByteSize(report.free_bytes()));
}

std::string StorageJson(const v1::StorageReport& report) {
  return Dump({{"folder", report.folder()},
               {"held_bytes", report.held_bytes()},
               {"held_experts", report.held_experts()},
               {"complete_experts", report.complete_experts()},
               {"all_experts", report.all_experts()},
               {"removed_experts", report.removed_experts()},
               {"quota_bytes", report.unlimited() ? Json(nullptr)
                                                  : Json(report.quota_bytes())},
               {"free_bytes", report.free_bytes()}});
}

std::string LedgerTable(const LedgerContents& ledger, int hottest) {
  std::string text = fmt::format(
      "model    {}\n"
      "held     {} experts\n"
      "used     {} experts\n"
      "quota    {}\n",
      OneLine(ledger.manifest_digest), ledger.held.size(),
      ledger.heat.uses.size(),
      ledger.quota_bytes ? FormatByteSize(*ledger.quota_bytes) : "none");
  TextTable table({"expert", "uses", "held"});
  for (const HotExpert& hot : HottestOf(ledger, hottest)) {
    table.Add({fmt::format("{}:{}", hot.key.layer, hot.key.expert),
               fmt::format("{:.3g}", hot.uses), hot.is_held ? "yes" : "no"});
  }
  return text + '\n' + table.ToString();
}

std::string LedgerJson(const LedgerContents& ledger, int hottest) {
  Json list = Json::array();
  for (const HotExpert& hot : HottestOf(ledger, hottest)) {
    list.push_back({{"layer", hot.key.layer},
                    {"expert", hot.key.expert},
                    {"uses", hot.uses},
                    {"held", hot.is_held}});
  }
  return Dump({{"model", ledger.manifest_digest},
               {"held_experts", ledger.held.size()},
               {"used_experts", ledger.heat.uses.size()},
               {"quota_bytes",
                ledger.quota_bytes ? Json(*ledger.quota_bytes) : Json(nullptr)},
               {"hottest", list}});
}

}  // namespace deltafin
