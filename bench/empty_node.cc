#include "bench/empty_node.h"

#include <utility>

#include "common/base/check.h"

namespace deltafin::bench {
namespace {

class EmptyStore : public ExpertStore {
 public:
  const ExpertShape& shape() const override { return shape_; }
  absl::StatusOr<uint64_t> Read(ExpertKey, SliceRun run,
                                std::span<uint8_t* const>,
                                absl::FunctionRef<void(int)> ready) override {
    for (int i = 0; i < run.count; ++i) ready(run.first + i);
    return 0;
  }

 private:
  const ExpertShape shape_ = EmptyModelSpec().expert_shape();
};

const KernelTarget& EmptyKernel() {
  static const KernelTarget kernel = [] {
    KernelTarget target = BestKernel();
    target.name = "empty";
    target.expert.run_slices = [](const ExpertSliceArgs&, int*) {
      return KernelStatus::kOk;
    };
    return target;
  }();
  return kernel;
}

}  // namespace

ModelSpec EmptyModelSpec() {
  ModelSpec spec;
  spec.num_hidden_layers = 2;
  spec.first_k_dense_replace = 1;
  spec.num_experts = 16;
  spec.num_experts_per_token = 16;
  spec.routed_expert_hidden_size = 3584;
  spec.moe_intermediate_size = 3072;
  return spec;
}

std::unique_ptr<ExpertNode> StartEmptyNode(const std::string& listen,
                                           const Credentials& credentials) {
  const ModelSpec spec = EmptyModelSpec();
  ExpertNodeOptions options;
  options.manifest_digest = kEmptyModelDigest;
  options.listen = listen;
  options.credentials = credentials;
  options.kernel = &EmptyKernel();
  options.num_threads = 1;
  options.num_readers = 1;
  options.ram_bytes = spec.expert_shape().payload_bytes() * spec.num_experts;
  auto node =
      ExpertNode::CreateOver(options, spec, std::make_unique<EmptyStore>());
  CHECK_OK(node.status());
  CHECK_OK((*node)->Start());
  return *std::move(node);
}

}  // namespace deltafin::bench
