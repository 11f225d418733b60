// Input: a byte that says how the stream ends and whether replies arrive, then
// what a coordinator sends: NodeRequests (tests/fuzz/pieces.h) with a
// LayerRequest, CancelStep, ExpectExperts or nothing. A node with experts
// answers every layer request once, whatever else comes, and is left empty.

#include <map>
#include <memory>
#include <tuple>

#include "common/base/check.h"
#include "expert_node/layer_stream.h"
#include "tests/fuzz/expert_node/zero_store.h"
#include "tests/fuzz/pieces.h"
#include "tests/fuzz/silence.h"

namespace v1 = deltafin::v1;
using Received = deltafin::LayerStream::Received;

namespace {

constexpr int kMaxTokens = 8;
constexpr deltafin::ExpertShape kShape = {32, 544};

// Layers 1..3, 8 experts of 3 slices, top 2.
deltafin::ModelSpec Spec() {
  deltafin::ModelSpec spec;
  spec.num_hidden_layers = 4;
  spec.first_k_dense_replace = 1;
  spec.num_experts = 8;
  spec.num_experts_per_token = 2;
  spec.routed_expert_hidden_size = kShape.latent_size;
  spec.moe_intermediate_size = kShape.intermediate_size;
  return spec;
}

struct Node {
  Node()
      : tiers(*deltafin::TieredStore::Create(
            std::make_unique<deltafin::ZeroStore>(kShape),
            {size_t{1} << 20, 1})),
        engine(deltafin::BestKernel(), spec.situ, *tiers, 1) {}

  const deltafin::ModelSpec spec = Spec();
  const std::unique_ptr<deltafin::TieredStore> tiers;
  deltafin::ExpertEngine engine;
};

Node& TheNode() {
  static Node node;
  return node;
}

using PartName = std::tuple<uint64_t, uint64_t, uint32_t, uint32_t>;

template <typename Message>
PartName NameOf(const Message& message) {
  return {message.epoch(), message.step(), message.layer(), message.part()};
}

void CheckReply(const v1::LayerReply& reply) {
  const auto code = static_cast<absl::StatusCode>(reply.status_code());
  CHECK(code == absl::StatusCode::kOk || !reply.status_message().empty());
  CHECK(code == absl::StatusCode::kOk || reply.sums().empty());
  CHECK(code == absl::StatusCode::kOk ||
        code == absl::StatusCode::kInvalidArgument ||
        code == absl::StatusCode::kOutOfRange ||
        code == absl::StatusCode::kCancelled ||
        code == absl::StatusCode::kResourceExhausted);
  CHECK(reply.sums().size() ==
        reply.token_size() * kShape.latent_size * sizeof(int64_t));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static const bool silent = deltafin::Silence();
  if (size == 0 || !silent) return 0;
  const bool breaks = (bytes[0] & 1) != 0;
  const bool listens = (bytes[0] & 2) == 0;
  std::span<const uint8_t> rest(bytes + 1, size - 1);
  deltafin::RequestCounters counters;
  deltafin::RequestGate gate;
  deltafin::RequestQueueLimits limits;
  limits.part_wait = absl::ZeroDuration();
  const deltafin::LayerStreamContext context = {
      TheNode().spec, TheNode().engine, counters, gate,
      kMaxTokens,     limits,           nullptr,  nullptr};
  // Written by whoever reads, then by whoever sends: one at a time each.
  std::map<PartName, int> asked;
  std::map<PartName, int> answered;
  bool has_empty = false;
  bool has_garbage = false;
  const auto receive = [&](v1::NodeRequest* message) {
    if (rest.empty()) return breaks ? Received::kBroken : Received::kEnd;
    const auto piece = deltafin::TakePiece(rest);
    has_garbage =
        !message->ParseFromArray(piece.data(), static_cast<int>(piece.size()));
    if (has_garbage) return Received::kBroken;
    if (message->has_layer()) ++asked[NameOf(message->layer())];
    has_empty |= message->request_case() == v1::NodeRequest::REQUEST_NOT_SET;
    return Received::kMessage;
  };
  const auto send = [&](const v1::LayerReply& reply) {
    CheckReply(reply);
    ++answered[NameOf(reply)];
    return listens;
  };
  const absl::Status status =
      deltafin::LayerStream(context, receive, send).Serve();
  CHECK(status.ok() == !has_empty);
  CHECK(status.ok() || absl::IsInvalidArgument(status));
  CHECK(gate.num_inside() == 0);
  const bool ended_early = breaks || !listens || has_empty || has_garbage;
  for (const auto& [name, times] : answered) {
    CHECK(asked.contains(name) && times <= asked[name]);
    CHECK(ended_early || times == asked[name]);
  }
  return 0;
}
