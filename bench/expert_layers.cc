#include "bench/expert_layers.h"

#include <chrono>
#include <utility>

#include "bench/repeated_store.h"
#include "common/base/check.h"
#include "kernels/kernel_registry.h"

namespace deltafin::bench {

ExpertLayers::ExpertLayers(const std::string& digest,
                           const PlacementOptions& placement,
                           std::vector<Member> members)
    : cluster_(placement, std::move(members)) {
  DispatcherOptions options;
  options.identity = {digest, "bench"};
  options.latent_size = FullExperts().routed_expert_hidden_size;
  options.kernel = &BestKernel().elementwise;
  dispatcher_ = std::make_unique<ExpertDispatcher>(options, cluster_);
  CHECK_OK(dispatcher_->ConnectAll());
  latent_.assign(options.latent_size, 0.01f);
}

double ExpertLayers::Time(const RouteModel& routes, int layer, uint64_t* seed) {
  DrawExperts(routes, seed, &experts_);
  weights_.assign(experts_.size(), 1.0f / experts_.size());
  const RoutedTokens routed = {1, routes.top_k, experts_, weights_, latent_};
  const auto begin = std::chrono::steady_clock::now();
  CHECK_OK(dispatcher_->Start(++step_, routes.first_layer + layer, routed));
  CHECK_OK(dispatcher_->Wait([] { return false; }).status());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
      .count();
}

std::vector<int64_t> ExpertLayers::Slices() const {
  std::vector<int64_t> slices;
  for (const NodeStats& node : dispatcher_->stats().nodes) {
    slices.push_back(node.work.slices_computed);
  }
  return slices;
}

}  // namespace deltafin::bench
