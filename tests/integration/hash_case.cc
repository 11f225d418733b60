#include "tests/integration/hash_case.h"

#include <gtest/gtest.h>

#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/testing/mini_cluster.h"
#include "tests/testing/temp_dir.h"

namespace deltafin::testing {
namespace {

using Json = nlohmann::json;

// Nodes of the case with their flags; null for none.
std::unique_ptr<MiniCluster> StartNodes(const HashedGeneration& generation,
                                        const HashCase& hash_case) {
  if (hash_case.num_nodes == 0) return nullptr;
  MiniClusterOptions options;
  options.num_nodes = hash_case.num_nodes;
  options.model_dir = generation.model;
  options.flags = {"--log-level", "warn", "--threads",
                   std::to_string(std::max(1, hash_case.threads))};
  const auto add = [&options](const char* flag, const std::string& value) {
    if (!value.empty()) options.flags = Join(options.flags, {flag, value});
  };
  add("--ram", hash_case.ram);
  add("--kernel", hash_case.kernel);
  for (int i = 0; i < hash_case.num_nodes; ++i) {
    if (hash_case.reply_delay.empty()) break;
    // Another order on every node.
    options.flags_of_node.push_back(
        {"--test-reply-delay-us", absl::StrCat(hash_case.reply_delay, i)});
  }
  absl::StatusOr<std::unique_ptr<MiniCluster>> cluster =
      MiniCluster::Start(options);
  if (!cluster.ok()) {
    ADD_FAILURE() << cluster.status();
    return nullptr;
  }
  return *std::move(cluster);
}

Words RunFlags(const HashedGeneration& generation, const HashCase& hash_case) {
  Words words{"run",
              "--model",
              generation.model,
              "--prompt-ids",
              generation.prompt_ids,
              "--max-new-tokens",
              std::to_string(generation.max_new_tokens),
              "--ignore-eos",
              "--stats",
              "--log-level",
              "warn"};
  const auto add = [&words](const char* flag, const std::string& value) {
    if (!value.empty()) words = Join(words, {flag, value});
  };
  add("--test-placement", hash_case.placement);
  add("--kernel", hash_case.kernel);
  if (hash_case.threads > 0) {
    add("--threads", std::to_string(hash_case.threads));
  }
  if (hash_case.prefill_chunk > 0) {
    add("--prefill-chunk", std::to_string(hash_case.prefill_chunk));
  }
  if (hash_case.num_nodes == 0) add("--ram", hash_case.ram);
  return words;
}

void ExpectStepsOfChunks(const HashedGeneration& generation,
                         const HashCase& hash_case, const Json& stats) {
  const int prompt = generation.num_prompt_ids;
  const int chunk =
      hash_case.prefill_chunk == 0 ? prompt : hash_case.prefill_chunk;
  EXPECT_EQ(stats["steps"],
            (prompt + chunk - 1) / chunk + generation.max_new_tokens - 1);
  EXPECT_EQ(stats["max_tokens_in_step"], std::min(prompt, chunk));
  EXPECT_EQ(stats["prefill_tokens"], prompt);
  EXPECT_EQ(stats["decode_tokens"], generation.max_new_tokens - 1);
}

void ExpectSettings(const HashCase& hash_case, const Json& stats) {
  const Json& settings = stats["settings"];
  EXPECT_EQ(settings["placement"],
            hash_case.placement.empty() ? "even" : hash_case.placement);
  if (!hash_case.kernel.empty()) {
    EXPECT_EQ(settings["kernel"], hash_case.kernel);
  }
  if (hash_case.threads > 0) {
    EXPECT_EQ(settings["threads"], hash_case.threads);
  }
}

void ExpectNodesWorked(const HashedGeneration& generation,
                       const HashCase& hash_case, const Json& stats) {
  ASSERT_EQ(stats["nodes"].size(), std::max(1, hash_case.num_nodes));
  int64_t slices = 0;
  int64_t evictions = 0;
  for (const Json& node : stats["nodes"]) {
    EXPECT_GT(node["slices_computed"], 0) << node;
    slices += node["slices_computed"].get<int64_t>();
    evictions += node["evictions"].get<int64_t>();
    if (!hash_case.kernel.empty()) {
      EXPECT_EQ(node["kernel"], hash_case.kernel);
    }
    if (hash_case.threads > 0) {
      EXPECT_EQ(node["threads"], hash_case.threads);
    }
  }
  const int64_t tokens =
      generation.num_prompt_ids + generation.max_new_tokens - 1;
  EXPECT_EQ(slices, tokens * generation.slices_per_token);
  if (!hash_case.ram.empty()) {
    EXPECT_GT(evictions, 0);
  }
}

std::string SomeIds(int count, int vocabulary) {
  std::vector<int> ids(count);
  for (int i = 0; i < count; ++i) ids[i] = (37 * i + 11) % vocabulary;
  return absl::StrJoin(ids, ",");
}

}  // namespace

std::string HashCase::Name() const {
  return absl::StrCat(num_nodes, " nodes ", placement, " delay ", reply_delay,
                      " kernel ", kernel, " threads ", threads, " chunk ",
                      prefill_chunk, " ram ", ram);
}

HashedGeneration NanoGeneration() {
  return {NanoModelDir(), SomeIds(40, 3840), 40, 12, 12 * 4 * 1};
}

HashedGeneration SlicedGeneration(const std::string& folder) {
  // 544 = 256 + 256 + 32: three slices, the last one short.
  MakeTinyModel(folder, 5, {"moe_intermediate_size=544"});
  return {folder, SomeIds(40, 384), 40, 12, 12 * 4 * 3};
}

std::string RunHashCase(const HashedGeneration& generation,
                        const HashCase& hash_case) {
  SCOPED_TRACE(hash_case.Name());
  const std::unique_ptr<MiniCluster> nodes = StartNodes(generation, hash_case);
  Words words = RunFlags(generation, hash_case);
  if (nodes != nullptr) words = Join(words, {"--nodes", nodes->addresses()});
  const TempDir folder;
  words = Join(words, {"--dump-logits", folder.File("logits.safetensors")});
  const Json report = RunDeltafinJson(words);
  if (!report.is_object()) return "";
  ExpectStepsOfChunks(generation, hash_case, report["stats"]);
  ExpectSettings(hash_case, report["stats"]);
  ExpectNodesWorked(generation, hash_case, report["stats"]);
  return report["output_sha256"];
}

}  // namespace deltafin::testing
