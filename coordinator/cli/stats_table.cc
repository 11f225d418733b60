#include "coordinator/cli/stats_table.h"

#include <spdlog/fmt/fmt.h>

#include "common/base/memory_budget.h"
#include "common/base/printable_text.h"

namespace deltafin {
namespace {

class Table {
 public:
  explicit Table(int64_t tokens) : tokens_(tokens) {}

  void Line(const std::string& line) { text_ += OneLine(line) + '\n'; }
  // Milliseconds a token.
  void Time(const char* name, double seconds) {
    const double per_token =
        tokens_ > 0 ? 1e3 * seconds / static_cast<double>(tokens_) : 0;
    Line(fmt::format("  {:<16}{:>10.3f} ms", name, per_token));
  }
  const std::string& text() const { return text_; }

 private:
  int64_t tokens_;
  std::string text_;
};

void AddTimes(const ForwardStats& forward, Table& table) {
  table.Time("spine read", forward.spine.read);
  table.Time("spine compute", forward.spine.compute);
  table.Time("attention", forward.spine.attention);
  table.Time("experts read", forward.experts_read);
  table.Time("experts compute", forward.experts_compute);
  table.Time("network", forward.network);
  table.Time("head", forward.spine.head);
}

void AddSteps(const SchedulerStats& scheduler, Table& table) {
  const double sequences =
      scheduler.steps > 0 ? static_cast<double>(scheduler.sequences_in_steps) /
                                static_cast<double>(scheduler.steps)
                          : 0;
  table.Line(
      fmt::format("steps {}, sequences per step {:.2f} (most {}), most tokens "
                  "in a step {}",
                  scheduler.steps, sequences, scheduler.max_sequences_in_step,
                  scheduler.max_tokens_in_step));
}

// What was read of a spine larger than its memory.
void AddStream(const RunStatistics& statistics, int64_t tokens, Table& table) {
  const SpineTimings& spine = statistics.scheduler.forward.spine;
  const RunSettings& settings = statistics.settings;
  if (settings.streamed_layers == 0) return;
  const auto bytes = static_cast<uint64_t>(spine.stream_bytes);
  table.Line(fmt::format(
      "spine layers read: {} in {:.2f} s ({} a second), {} a token; {} layers, "
      "{} a step",
      FormatByteSize(bytes), spine.stream,
      FormatByteSize(spine.stream > 0 ? static_cast<uint64_t>(
                                            spine.stream_bytes / spine.stream)
                                      : 0),
      FormatByteSize(tokens > 0 ? bytes / tokens : 0), settings.streamed_layers,
      FormatByteSize(static_cast<uint64_t>(settings.streamed_bytes))));
}

// What saved work, where something did.
void AddSavings(const SchedulerStats& scheduler, Table& table) {
  const ReuseStats& reuse = scheduler.reuse;
  if (reuse.hits > 0) {
    table.Line(fmt::format(
        "prompts: {} of {} went on from a retained state, {} tokens not "
        "computed again; {} states hold {}",
        reuse.hits, reuse.hits + reuse.misses, reuse.cached_tokens,
        reuse.retained_states, FormatByteSize(reuse.retained_bytes)));
  }
  const SpeculationStats& guesses = scheduler.speculation;
  if (guesses.steps > 0) {
    table.Line(fmt::format("guesses: {} in {} steps, {} right ({:.2f} a step)",
                           guesses.drafted, guesses.steps, guesses.accepted,
                           static_cast<double>(guesses.accepted) /
                               static_cast<double>(guesses.steps)));
  }
}

void AddSettings(const RunSettings& settings, Table& table) {
  table.Line(fmt::format(
      "spine {}, kernel {}, threads {}, prefill chunk {}, context {}, "
      "placement {}",
      settings.spine, settings.kernel.empty() ? "-" : settings.kernel,
      settings.num_threads, settings.prefill_chunk, settings.context_tokens,
      settings.placement));
}

void AddNode(const NodeReport& node, Table& table) {
  if (!node.reachable || node.work.parts_lost > 0) {
    table.Line(fmt::format("{:<22}lost {} parts to others{}", node.address,
                           node.work.parts_lost,
                           node.reachable ? "" : " and does not answer"));
  }
  if (node.work.parts_hedged > 0 || node.work.hedges_won > 0) {
    table.Line(fmt::format(
        "{:<22}was late with {} parts that others were asked for, too; "
        "answered "
        "{} such parts of others first",
        node.address, node.work.parts_hedged, node.work.hedges_won));
  }
  if (!node.reachable) return;
  const v1::NodeCounters& counters = node.counters;
  table.Line(fmt::format("{:<22}{:<10}{:>8}{:>12}{:>9}{:>9}{:>10}{:>12}",
                         node.address, node.identity.kernel(),
                         node.identity.threads(), counters.slices_computed(),
                         counters.cache_hits(), counters.cache_misses(),
                         counters.evictions(),
                         FormatByteSize(counters.bytes_read())));
}

}  // namespace

std::string StatsTable(const RunStatistics& statistics) {
  const SchedulerStats& scheduler = statistics.scheduler;
  const int64_t tokens = scheduler.prefill_tokens + scheduler.decode_tokens;
  Table table(tokens);
  table.Line(fmt::format("time per token, over {} of prompts and {} generated",
                         scheduler.prefill_tokens, scheduler.decode_tokens));
  AddTimes(scheduler.forward, table);
  AddSteps(scheduler, table);
  AddStream(statistics, scheduler.prefill_tokens + scheduler.decode_tokens,
            table);
  AddSavings(scheduler, table);
  AddSettings(statistics.settings, table);
  table.Line(fmt::format("{:<22}{:<10}{:>8}{:>12}{:>9}{:>9}{:>10}{:>12}",
                         "node", "kernel", "threads", "slices", "hits",
                         "misses", "evictions", "read"));
  for (const NodeReport& node : statistics.nodes) AddNode(node, table);
  return table.text();
}

}  // namespace deltafin
