#include "tests/testing/fake_expert_node.h"

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "common/base/check.h"
#include "common/base/mutex.h"
#include "coordinator/engine/expert_client.h"
#include "proto/expert.grpc.pb.h"
#include "tests/testing/fake_routed_experts.h"

namespace deltafin::testing {
namespace {

using Stream = grpc::ServerReaderWriter<v1::LayerReply, v1::NodeRequest>;

v1::LayerReply Compute(const v1::LayerRequest& request, int latent_size) {
  std::vector<float> latent(request.latent().size() / sizeof(float));
  std::memcpy(latent.data(), request.latent().data(), request.latent().size());
  std::vector<int64_t> sums(latent.size());
  v1::LayerReply reply;
  uint64_t num_slices = 0;
  int next = 0;
  for (int row = 0; row < static_cast<int>(request.num_tokens()); ++row) {
    const size_t begin = size_t(row) * latent_size;
    for (; next < static_cast<int>(request.assignment_end(row)); ++next) {
      for (uint32_t i = 0; i < request.num_slices(next); ++i, ++num_slices) {
        AddFakeTerm({static_cast<int>(request.layer()),
                     static_cast<int>(request.expert(next)),
                     static_cast<int>(request.first_slice(next) + i),
                     request.weight(next)},
                    &latent[begin], latent_size, &sums[begin]);
      }
    }
    reply.add_token(row);
  }
  reply.set_epoch(request.epoch());
  reply.set_step(request.step());
  reply.set_layer(request.layer());
  reply.set_part(request.part());
  reply.set_sums(sums.data(), sums.size() * sizeof(int64_t));
  reply.set_slices_computed(num_slices);
  reply.mutable_timings()->set_compute_us(1);
  return reply;
}

class FakeService : public v1::ExpertService::Service {
 public:
  explicit FakeService(FakeNodeOptions options)
      : options_(std::move(options)) {}

  grpc::Status Handshake(grpc::ServerContext*, const v1::HandshakeRequest*,
                         v1::HandshakeReply* reply) override {
    ++handshakes_;
    if (options_.refuse_with != 0) {
      return {static_cast<grpc::StatusCode>(options_.refuse_with),
              options_.refusal};
    }
    reply->set_node_id("fake");
    reply->set_manifest_digest(options_.manifest_digest);
    reply->set_wire_version(options_.wire_version);
    reply->set_numerics_version(options_.numerics_version);
    reply->set_kernel("fake");
    return grpc::Status::OK;
  }

  grpc::Status RunLayers(grpc::ServerContext*, Stream* stream) override {
    v1::NodeRequest request;
    std::optional<v1::LayerReply> withheld;
    while (stream->Read(&request)) {
      if (request.has_cancel()) {
        ++steps_cancelled_;
        continue;
      }
      if (request.has_expect()) continue;
      v1::LayerReply reply =
          Compute(request.layer(), options_.shape.latent_size);
      Count(reply);
      if (options_.delay > absl::ZeroDuration()) absl::SleepFor(options_.delay);
      const ReplyFate fate = options_.on_reply
                                 ? options_.on_reply(request.layer(), &reply)
                                 : ReplyFate::kSend;
      if (fate == ReplyFate::kBreakStream) {
        return {grpc::StatusCode::UNAVAILABLE, "fake node breaks the stream"};
      }
      if (fate == ReplyFate::kForget) continue;
      if (fate == ReplyFate::kWithhold && !withheld) {
        withheld = std::move(reply);
        continue;
      }
      stream->Write(reply);
      if (fate == ReplyFate::kSendTwice) stream->Write(reply);
      if (withheld) stream->Write(*std::exchange(withheld, std::nullopt));
    }
    return grpc::Status::OK;
  }

  grpc::Status GetCounters(grpc::ServerContext*, const v1::GetCountersRequest*,
                           v1::NodeCounters* reply) override {
    *reply = counters();
    return grpc::Status::OK;
  }

  v1::NodeCounters counters() const {
    MutexLock lock(mutex_);
    return counters_;
  }
  int steps_cancelled() const { return steps_cancelled_; }
  int handshakes() const { return handshakes_; }

 private:
  void Count(const v1::LayerReply& reply) {
    MutexLock lock(mutex_);
    counters_.set_layer_requests(counters_.layer_requests() + 1);
    counters_.set_slices_computed(counters_.slices_computed() +
                                  reply.slices_computed());
  }

  const FakeNodeOptions options_;
  std::atomic<int> steps_cancelled_ = 0;
  std::atomic<int> handshakes_ = 0;
  mutable Mutex mutex_;
  v1::NodeCounters counters_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

struct FakeExpertNode::Impl {
  explicit Impl(FakeNodeOptions options)
      : port(options.port), service(std::move(options)) {
    grpc::ServerBuilder builder;
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.SetMaxReceiveMessageSize(64 << 20);
    builder.AddListeningPort("127.0.0.1:" + std::to_string(port),
                             grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service);
    server = builder.BuildAndStart();
    CHECK(server != nullptr, "the fake node's port is taken");
  }

  int port = 0;
  FakeService service;
  std::unique_ptr<grpc::Server> server;
};

FakeExpertNode::FakeExpertNode(FakeNodeOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}

FakeExpertNode::~FakeExpertNode() { Stop(); }

std::string FakeExpertNode::address() const {
  return "127.0.0.1:" + std::to_string(impl_->port);
}

int FakeExpertNode::port() const { return impl_->port; }

std::shared_ptr<grpc::Channel> FakeExpertNode::InProcessChannel() {
  grpc::ChannelArguments arguments;
  SetExpertChannelArguments(&arguments);
  return impl_->server->InProcessChannel(arguments);
}

void FakeExpertNode::Stop() {
  impl_->server->Shutdown(absl::ToChronoTime(absl::Now()));
  impl_->server->Wait();
}

v1::NodeCounters FakeExpertNode::counters() const {
  return impl_->service.counters();
}

int FakeExpertNode::handshakes() const { return impl_->service.handshakes(); }
int FakeExpertNode::steps_cancelled() const {
  return impl_->service.steps_cancelled();
}

}  // namespace deltafin::testing
