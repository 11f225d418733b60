// Writes pages of heat into FOLDER/ledger until it is killed. Every page names
// the same 20,000 experts, all with one heat.

#include <cstdio>

#include "expert_node/storage/expert_index.h"

int main(int argc, char** argv) {
  using namespace deltafin;
  if (argc != 2) return 64;
  const auto index = ExpertIndex::Open(argv[1], std::string(64, 'a'));
  if (!index.ok()) return 1;
  for (double now = 10;; ++now) {
    HeatPage page{now, {}};
    for (int e = 0; e < 20'000; ++e) {
      page.uses.push_back({{1 + e / 1000, e % 1000}, now, 1});
    }
    if (!(*index)->AddHeat(page).ok()) return 2;
  }
}
