// Input: a byte that says which method of InferenceService, then the bytes of
// its request: TokenizeRequest, DetokenizeRequest or GetModelRequest. Bytes
// that are no message are refused like any other bad request, ids are the
// vocabulary's, and text gives no control token unless it was asked for.

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/test/default_reactor_test_peer.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "coordinator/frontend/inference_service.h"
#include "tests/fuzz/coordinator/chat_tokenizer.h"
#include "tests/fuzz/silence.h"
#include "tests/testing/fake_routed_experts.h"
#include "tests/testing/fake_spine.h"

namespace v1 = deltafin::v1;
using deltafin::ChatTokenizer;
using deltafin::InferenceService;

namespace {

constexpr int32_t kBos = 17;

// Over an engine that is never started: nothing here asks it.
InferenceService& Service() {
  static InferenceService& service = *[] {
    auto* const spine = new deltafin::testing::FakeSpine;
    auto* const experts =
        new deltafin::testing::FakeRoutedExperts(spine->spec().expert_shape());
    auto* const forward = new deltafin::ForwardPass(*spine, *experts);
    auto* const scheduler = new deltafin::Scheduler({}, *forward);
    deltafin::InferenceServiceOptions options;
    options.model.set_name("fuzz");
    options.defaults = {kBos, 16};
    return new InferenceService(options, ChatTokenizer(), *scheduler);
  }();
  return service;
}

using Method = grpc::ServerUnaryReactor* (
    InferenceService::*)(grpc::CallbackServerContext*, const grpc::ByteBuffer*,
                         grpc::ByteBuffer*);

template <typename Reply>
absl::StatusOr<Reply> Call(Method method, const uint8_t* bytes, size_t size) {
  const grpc::Slice slice(bytes, size);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer reply_bytes;
  grpc::CallbackServerContext context;
  const grpc::testing::DefaultReactorTestPeer peer(&context);
  (Service().*method)(&context, &request, &reply_bytes);
  CHECK(peer.test_status_set());
  if (!peer.test_status().ok()) {
    CHECK(peer.test_status().error_code() ==
          grpc::StatusCode::INVALID_ARGUMENT);
    CHECK(!peer.test_status().error_message().empty());
    return absl::InvalidArgumentError(peer.test_status().error_message());
  }
  Reply reply;
  CHECK(
      grpc::SerializationTraits<Reply>::Deserialize(&reply_bytes, &reply).ok());
  return reply;
}

void TryTokenize(const uint8_t* bytes, size_t size) {
  const auto reply =
      Call<v1::TokenizeReply>(&InferenceService::Tokenize, bytes, size);
  v1::TokenizeRequest request;
  if (!request.ParseFromArray(bytes, static_cast<int>(size))) {
    CHECK(!reply.ok());
    return;
  }
  if (!reply.ok()) return;
  const deltafin::Vocabulary& vocabulary = ChatTokenizer().vocabulary();
  const std::vector<int32_t> ids(reply->ids().begin(), reply->ids().end());
  for (const int32_t id : ids) CHECK(id >= 0 && id < vocabulary.size());
  if (request.has_chat() || request.control()) return;
  const size_t added = request.add_bos() ? 1 : 0;
  CHECK(ids.size() >= added && (added == 0 || ids[0] == kBos));
  const std::span<const int32_t> text_ids = std::span(ids).subspan(added);
  CHECK(std::ranges::all_of(
      text_ids, [&](int32_t id) { return id < vocabulary.base(); }));
  CHECK(*ChatTokenizer().Decode(text_ids) == request.text());
}

void TryDetokenize(const uint8_t* bytes, size_t size) {
  const auto reply =
      Call<v1::DetokenizeReply>(&InferenceService::Detokenize, bytes, size);
  v1::DetokenizeRequest request;
  const bool is_message = request.ParseFromArray(bytes, static_cast<int>(size));
  const auto bound = static_cast<uint32_t>(ChatTokenizer().vocabulary().size());
  const bool are_known = std::ranges::all_of(
      request.ids(), [bound](uint32_t id) { return id < bound; });
  CHECK(reply.ok() == (is_message && are_known));
}

void TryModel(const uint8_t* bytes, size_t size) {
  const auto reply = Call<v1::Model>(&InferenceService::GetModel, bytes, size);
  v1::GetModelRequest request;
  const bool is_message = request.ParseFromArray(bytes, static_cast<int>(size));
  CHECK(reply.ok() == is_message);
  CHECK(!reply.ok() || reply->name() == "fuzz");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  static const bool silent = deltafin::Silence();
  if (size == 0 || !silent) return 0;
  switch (bytes[0] % 3) {
    case 0:
      TryTokenize(bytes + 1, size - 1);
      break;
    case 1:
      TryDetokenize(bytes + 1, size - 1);
      break;
    default:
      TryModel(bytes + 1, size - 1);
  }
  return 0;
}
