#include "expert_node/node_metrics.h"

namespace deltafin {
namespace {

constexpr MetricType kCounter = MetricType::kCounter;
constexpr MetricType kGauge = MetricType::kGauge;

constexpr MetricInfo kInfo = {"deltafin_node_info", kGauge,
                              "Always 1; what the node is, in its labels"};
constexpr MetricInfo kRequests = {"deltafin_node_layer_requests_total",
                                  kCounter, "Layer requests that were run"};
constexpr MetricInfo kRefused = {"deltafin_node_refused_requests_total",
                                 kCounter, "Layer requests that were refused"};
constexpr MetricInfo kCancelled = {
    "deltafin_node_cancelled_requests_total", kCounter,
    "Layer requests that a coordinator cancelled or left behind"};
constexpr MetricInfo kQueued = {"deltafin_node_queued_requests", kGauge,
                                "Layer requests that wait or run now"};
constexpr MetricInfo kSlices = {"deltafin_node_slices_computed_total", kCounter,
                                "(token, expert, slice) triples computed"};
constexpr MetricInfo kReadBytes = {"deltafin_node_read_bytes_total", kCounter,
                                   "Bytes of experts read from the store"};
constexpr MetricInfo kHits = {
    "deltafin_node_cache_hits_total", kCounter,
    "Slices wanted that were in memory or on their way into it"};
constexpr MetricInfo kMisses = {"deltafin_node_cache_misses_total", kCounter,
                                "Slices wanted that had to be read"};
constexpr MetricInfo kEvictions = {"deltafin_node_cache_evictions_total",
                                   kCounter, "Slices that gave way to others"};
constexpr MetricInfo kExpectedUsed = {
    "deltafin_node_expected_slices_used_total", kCounter,
    "Slices read ahead that were then wanted"};
constexpr MetricInfo kExpectedWasted = {
    "deltafin_node_expected_slices_wasted_total", kCounter,
    "Slices read ahead in vain"};
constexpr MetricInfo kResident = {"deltafin_node_cache_resident_bytes", kGauge,
                                  "Memory that holds slices now"};
constexpr MetricInfo kCapacity = {"deltafin_node_cache_capacity_bytes", kGauge,
                                  "Memory for slices, as it is now"};
constexpr MetricInfo kQueueSeconds = {
    "deltafin_node_queue_seconds_total", kCounter,
    "Time that answered layer requests waited for their turn"};
constexpr MetricInfo kReadSeconds = {
    "deltafin_node_read_seconds_total", kCounter,
    "Time that answered layer requests waited for bytes"};
constexpr MetricInfo kComputeSeconds = {
    "deltafin_node_compute_seconds_total", kCounter,
    "Time that answered layer requests computed"};
constexpr MetricInfo kAnswerSeconds = {
    "deltafin_node_layer_request_seconds", MetricType::kHistogram,
    "From the arrival of a layer request to its reply"};

constexpr MetricInfo kReadRate = {
    "deltafin_node_read_bytes_per_second", kGauge,
    "Rate of the drive, from its reads, 0: not known"};
constexpr MetricInfo kSustained = {
    "deltafin_node_sustained_read_bytes_per_second", kGauge,
    "Rate that the drive sustained when it was measured, 0: never"};
constexpr MetricInfo kThrottled = {
    "deltafin_node_drive_throttled", kGauge,
    "1 while the drive reads slower than it once sustained"};
constexpr MetricInfo kKernelRate = {
    "deltafin_node_kernel_bytes_per_second", kGauge,
    "Bytes of experts through the kernel, as measured at the start"};

constexpr MetricInfo kCards = {"deltafin_node_cards", kGauge,
                               "Cards that compute experts"};
constexpr MetricInfo kFailedCards = {
    "deltafin_node_failed_cards_total", kCounter,
    "Cards that were to compute experts and do not"};
constexpr MetricInfo kCardHits = {"deltafin_node_card_hits_total", kCounter,
                                  "Slices wanted that were on their card"};
constexpr MetricInfo kCardMisses = {
    "deltafin_node_card_misses_total", kCounter,
    "Slices wanted that were not on their card"};
constexpr MetricInfo kCardComputed = {"deltafin_node_card_computed_total",
                                      kCounter,
                                      "Slices wanted that were not on their "
                                      "card and that the processor computed"};
constexpr MetricInfo kCardCopied = {"deltafin_node_card_copied_bytes_total",
                                    kCounter,
                                    "Bytes of experts copied to cards"};
constexpr MetricInfo kCardEvictions = {"deltafin_node_card_evictions_total",
                                       kCounter,
                                       "Slices on cards that gave way"};
constexpr MetricInfo kCardResident = {"deltafin_node_card_resident_bytes",
                                      kGauge,
                                      "Memory of cards that holds slices now"};
constexpr MetricInfo kCardCapacity = {"deltafin_node_card_capacity_bytes",
                                      kGauge, "Memory of cards for slices"};
constexpr MetricInfo kCardFree = {"deltafin_node_card_free_bytes", kGauge,
                                  "Memory of these cards that nobody has"};
constexpr MetricInfo kPinned = {"deltafin_node_pinned_bytes", kGauge,
                                "Memory for slices that cards read themselves"};

constexpr MetricInfo kSentBytes = {
    "deltafin_node_sent_slice_bytes_total", kCounter,
    "Bytes of experts given to other machines' drives"};
constexpr MetricInfo kHeld = {"deltafin_node_held_slices", kGauge,
                              "Slices of experts on the drive"};
constexpr MetricInfo kMissing = {
    "deltafin_node_missing_slices", kGauge,
    "Slices that the node is meant to hold and lacks"};
constexpr MetricInfo kCopied = {
    "deltafin_node_copied_slices_total", kCounter,
    "Slices copied to the drive ahead of their use"};
constexpr MetricInfo kCopiedBytes = {
    "deltafin_node_copied_bytes_total", kCounter,
    "Bytes of experts copied to the drive ahead of their use"};
constexpr MetricInfo kFailedCopies = {"deltafin_node_failed_copies_total",
                                      kCounter, "Copies that did not succeed"};
constexpr MetricInfo kRemoved = {"deltafin_node_removed_slices_total", kCounter,
                                 "Slices removed to make room"};
constexpr MetricInfo kCopyRate = {"deltafin_node_copy_bytes_per_second", kGauge,
                                  "Rate of copying, lately"};

double Seconds(int64_t microseconds) {
  return static_cast<double>(microseconds) * 1e-6;
}

double Number(uint64_t value) { return static_cast<double>(value); }

void AddCardMetrics(const CardSetStats& cards, MetricsPage& page) {
  page.Add(kCards, cards.num_cards);
  page.Add(kFailedCards, cards.num_failed);
  page.Add(kCardHits, Number(cards.tiers.hits));
  page.Add(kCardMisses, Number(cards.tiers.misses));
  page.Add(kCardComputed, Number(cards.tiers.computed));
  page.Add(kCardCopied, Number(cards.tiers.copied_bytes));
  page.Add(kCardEvictions, Number(cards.tiers.evictions));
  page.Add(kCardResident, Number(cards.tiers.resident_bytes));
  page.Add(kCardCapacity, Number(cards.tiers.capacity_bytes));
  page.Add(kCardFree, Number(cards.free_bytes));
  page.Add(kPinned, Number(cards.pinned_bytes));
}

}  // namespace

void AddNodeMetrics(const ExpertNode& node, MetricsPage& page) {
  const v1::HandshakeReply& identity = node.identity();
  page.Add(kInfo, 1,
           {{"node_id", identity.node_id()},
            {"version", identity.version()},
            {"kernel", identity.kernel()}});
  const v1::NodeCounters counters = node.counters();
  page.Add(kRequests, Number(counters.layer_requests()));
  page.Add(kRefused, Number(counters.refused_requests()));
  page.Add(kCancelled, Number(counters.cancelled_requests()));
  page.Add(kQueued, Number(counters.queue_depth()));
  page.Add(kSlices, Number(counters.slices_computed()));
  page.Add(kReadBytes, Number(counters.bytes_read()));
  page.Add(kHits, Number(counters.cache_hits()));
  page.Add(kMisses, Number(counters.cache_misses()));
  page.Add(kEvictions, Number(counters.evictions()));
  page.Add(kExpectedUsed, Number(counters.expected_used()));
  page.Add(kExpectedWasted, Number(counters.expected_wasted()));
  page.Add(kResident, Number(counters.resident_bytes()));
  page.Add(kCapacity, Number(node.tier_bytes()));
  const RequestCounters& requests = node.request_counters();
  page.Add(kQueueSeconds, Seconds(requests.queue_us));
  page.Add(kReadSeconds, Seconds(requests.read_us));
  page.Add(kComputeSeconds, Seconds(requests.compute_us));
  page.Add(kAnswerSeconds, requests.answer_times);
  const ReadRateReport read = node.read_rate();
  page.Add(kReadRate, read.bytes_per_second);
  page.Add(kSustained, read.sustained);
  page.Add(kThrottled, read.throttled ? 1 : 0);
  page.Add(kKernelRate, node.kernel_rate());
  page.Add(kSentBytes, Number(node.slices().bytes_sent()));
  AddCardMetrics(node.cards(), page);
}

void AddShareMetrics(const ShareReport& share, MetricsPage& page) {
  page.Add(kHeld, Number(share.held_slices));
  page.Add(kMissing, Number(share.missing_slices));
  page.Add(kCopied, Number(share.copied_slices));
  page.Add(kCopiedBytes, Number(share.copied_bytes));
  page.Add(kFailedCopies, Number(share.failed_copies));
  page.Add(kRemoved, Number(share.removed_slices));
  page.Add(kCopyRate, share.bytes_per_second);
}

}  // namespace deltafin
