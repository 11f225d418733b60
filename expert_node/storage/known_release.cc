#include "expert_node/storage/known_release.h"

#include "common/base/status_macros.h"

namespace deltafin {
namespace {

constexpr std::string_view kRepository = "moonshotai/Kimi-K3";
constexpr std::string_view kCommits[] = {
    "c5d1dd4c428bd1ce8b88c5044f3b6ccde9e3b721",
    "9f62e4e9fffbd0a83ddd60e1c209d828994b3569"};

// Source: docs/model.md section 7. Of some digests only both ends are known,
// of the index no exact size.
struct KnownFile {
  std::string_view name;
  uint64_t bytes;  // 0: not known
  std::string_view sha256_begin;
  std::string_view sha256_end;
};
constexpr KnownFile kFiles[] = {
    {"LICENSE", 3'065, "20c797ce", "2887"},
    {"config.json", 7'006,
     "9710e121a58d03ac92c8d6da287a19541994319afbbe6d6202af001ffd379213", ""},
    {"generation_config.json", 53, "c6648c25", "2836"},
    {"model.safetensors.index.json", 0,
     "a1c5210650ce71d2d3ae9ec5a101ac4afd3cf4b10091be589853437eb967febd", ""},
    {"tiktoken.model", 2'795'286,
     "b6c497a7469b33ced9c38afb1ad6e47f03f5e5dc05f15930799210ec050c5103", ""},
    {"tokenizer_config.json", 3'478, "5d0803c9", "0a6e"},
};

}  // namespace

bool IsKimiK3Config(uint64_t bytes, std::string_view sha256) {
  return CheckKnownFile("config.json", bytes, sha256).ok();
}

bool IsKnownRelease(std::string_view repository, std::string_view commit) {
  if (repository != kRepository) return false;
  for (const std::string_view known : kCommits) {
    if (commit == known) return true;
  }
  return false;
}

absl::Status CheckKnownFile(const std::string& file, uint64_t bytes,
                            std::string_view sha256) {
  for (const KnownFile& known : kFiles) {
    if (known.name != file) continue;
    if ((known.bytes == 0 || known.bytes == bytes) &&
        sha256.starts_with(known.sha256_begin) &&
        sha256.ends_with(known.sha256_end)) {
      return absl::OkStatus();
    }
    return absl::DataLossError(fmt::format(
        "{} has {} bytes and SHA-256 {}; the released Kimi K3's has {} and "
        "{}{}{}: it is damaged or changed, fetch it again",
        file, bytes, sha256,
        known.bytes == 0 ? "an unknown size"
                         : fmt::format("{} bytes", known.bytes),
        known.sha256_begin, known.sha256_end.empty() ? "" : "...",
        known.sha256_end));
  }
  return absl::OkStatus();
}

}  // namespace deltafin
