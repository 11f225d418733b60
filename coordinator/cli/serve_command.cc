#include "coordinator/cli/serve_command.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/net/credentials.h"
#include "common/net/exit_code.h"
#include "common/net/listen_address.h"
#include "common/net/metrics.h"
#include "common/net/server_lifecycle.h"
#include "coordinator/cli/run_report.h"
#include "coordinator/cli/stats_table.h"
#include "coordinator/cluster/admin_service.h"
#include "coordinator/cluster/cluster_service.h"
#include "coordinator/cluster/model_files.h"
#include "coordinator/coordinator.h"
#include "coordinator/coordinator_metrics.h"
#include "coordinator/frontend/inference_service.h"
#include "coordinator/http_api.h"
#include "coordinator/slice_supply.h"
#include "expert_node/storage_service.h"

namespace deltafin {
namespace {

constexpr char kDefaultListen[] = "127.0.0.1:8500";
// How long SIGTERM waits for running requests.
constexpr absl::Duration kDrain = absl::Seconds(30);

constexpr char kServeFooter[] = R"(
Serves deltafin.v1.InferenceService (proto/inference.proto), the standard health
service and reflection; with --http also the OpenAI-compatible HTTP API
(docs/http_api.md). Prints "listening on HOST:PORT" when ready. SIGTERM,
SIGHUP or Ctrl-C refuses new requests, lets running ones end for 30 seconds,
then ends; a second one ends at once.

Examples:
  deltafin serve
  deltafin serve --http 127.0.0.1:8080
  deltafin serve --model /models/Kimi-K3 --spine int8 --listen 127.0.0.1:9000
  deltafin serve --config /etc/deltafin/coordinator.txtpb)";

// The folder's name.
std::string ModelName(const std::string& dir) {
  std::error_code error;
  return std::filesystem::weakly_canonical(dir, error).filename().string();
}

InferenceServiceOptions DescribeService(const Coordinator& coordinator) {
  const ModelIdentity& model = coordinator.model();
  const RunSettings settings = coordinator.settings();
  InferenceServiceOptions options;
  options.model.set_name(ModelName(model.dir));
  options.model.set_manifest_digest(model.manifest_digest);
  options.model.set_spine(settings.spine);
  options.model.set_kernel(settings.kernel);
  options.model.set_num_layers(model.spec.num_hidden_layers);
  options.model.set_vocab_size(model.spec.vocab_size);
  options.model.set_context_tokens(settings.context_tokens);
  options.model.set_version(DELTAFIN_VERSION);
  options.defaults.bos_token_id = model.spec.bos_token_id;
  return options;
}

// A bad address or a port in use is refused before the long load.
absl::Status CheckListen(const std::string& flag, const std::string& listen,
                         bool is_plaintext) {
  const absl::StatusOr<ListenAddress> address = ListenAddress::Parse(listen);
  const absl::Status usable =
      address.ok() ? RequireProtected("listen on", *address, is_plaintext)
                   : address.status();
  if (!usable.ok()) {
    return UsageError(flag + ": " + std::string(usable.message()));
  }
  return RequireFreePort(*address);
}

absl::Status CheckMetrics(const std::string& listen) {
  const absl::StatusOr<ListenAddress> address = MetricsAddress(listen);
  if (address.ok()) return RequireFreePort(*address);
  return UsageError("--metrics: " + std::string(address.status().message()));
}

absl::Status CheckHttp(const HttpApiOptions& http) {
  if (http.listen.empty()) return absl::OkStatus();
  const absl::Status status = CheckHttpApiOptions(http);
  if (absl::IsInvalidArgument(status)) {
    return UsageError("--http: " + std::string(status.message()));
  }
  RETURN_IF_ERROR(status);
  ASSIGN_OR_RETURN(const ListenAddress address,
                   ListenAddress::Parse(http.listen));
  return RequireFreePort(address);
}

// Lets the health service say of the InferenceService what the cluster can do,
// for as long as this lives.
class ServingWatch {
 public:
  ServingWatch(RegistryTicker& ticker, ServerLifecycle& server)
      : ticker_(ticker) {
    ticker_.SetListener([&server](bool is_up) {
      server.SetServing("deltafin.v1.InferenceService", is_up);
    });
  }
  ~ServingWatch() { ticker_.SetListener(nullptr); }
  ServingWatch(const ServingWatch&) = delete;
  ServingWatch& operator=(const ServingWatch&) = delete;

 private:
  RegistryTicker& ticker_;
};

// `http` may be null.
void DrainBoth(ServerLifecycle& server, HttpApi* http) {
  std::thread http_drain([http] {
    if (http != nullptr) http->Shutdown(kDrain);
  });
  server.Shutdown(kDrain);
  http_drain.join();
}

}  // namespace

ServeCommand::ServeCommand(CLI::App& app) {
  app.footer(kServeFooter);
  coordinator_flags_.AddTo(app);
  coordinator_flags_.AddClusterTo(app);
  app.add_option("--listen", listen_,
                 "HOST:PORT, beyond loopback with credentials only; port 0 "
                 "takes a free one (default: 127.0.0.1:8500)");
  app.add_option("--max-sequences", max_sequences_,
                 "Requests that run at once (default: 8)")
      ->check(CLI::Range(1, 4096));
  app.add_option("--max-queued", max_queued_,
                 "Requests that may wait for a place (default: 256)")
      ->check(CLI::Range(1, 1 << 20));
  http_flags_.AddTo(app);
  CLI::Option* const stats =
      app.add_flag("--stats", stats_, "Tell at the end where the time went");
  app.add_flag("--json", json_, "With --stats: as one JSON object")
      ->needs(stats);
}

absl::Status ServeCommand::Run(TerminationSignal& signals) {
  ASSIGN_OR_RETURN(const v1::CoordinatorConfig config,
                   coordinator_flags_.Config());
  ASSIGN_OR_RETURN(CoordinatorOptions options, coordinator_flags_.Options());
  if (max_sequences_.has_value()) options.max_sequences = *max_sequences_;
  if (max_queued_.has_value()) options.max_queued = *max_queued_;
  ServerOptions server;
  server.credentials = options.credentials;
  server.listen = config.listen().empty() ? kDefaultListen : config.listen();
  if (listen_.has_value()) server.listen = *listen_;
  RETURN_IF_ERROR(CheckListen("--listen", server.listen,
                              server.credentials.is_plaintext()));
  if (!options.metrics_listen.empty()) {
    RETURN_IF_ERROR(CheckMetrics(options.metrics_listen));
  }
  ASSIGN_OR_RETURN(const HttpApiOptions http, http_flags_.Options(config));
  RETURN_IF_ERROR(CheckHttp(http));
  Coordinator coordinator(std::move(options));
  return Serve(coordinator, server, http, signals);
}

absl::Status ServeCommand::Serve(Coordinator& coordinator,
                                 const ServerOptions& server_options,
                                 const HttpApiOptions& http_options,
                                 TerminationSignal& signals) const {
  RETURN_IF_ERROR(coordinator.Init());
  RETURN_IF_ERROR(coordinator.Start());
  InferenceService service(DescribeService(coordinator),
                           coordinator.tokenizer(), coordinator.scheduler());
  Membership& membership = coordinator.membership();
  const ModelIdentity& model = coordinator.model();
  const ModelFiles files(model.dir, model.manifest);
  ClusterService cluster(membership.registry(), &files);
  SliceSupply slices(
      {model.dir, model.spec, model.manifest_digest, coordinator.hub()},
      membership.own_node());
  AdminService admin(membership.registry(), [&coordinator](uint64_t request) {
    return coordinator.scheduler().Explain(request);
  });
  std::vector<grpc::Service*> services{&service, &admin};
  if (coordinator.accepts_nodes()) {
    services.push_back(&cluster);
    services.push_back(&slices.service());
  }
  std::unique_ptr<StorageService> storage;
  if (StoredExperts* const stored = membership.stored_experts()) {
    storage = std::make_unique<StorageService>(*stored);
    services.push_back(storage.get());
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<ServerLifecycle> server,
                   ServerLifecycle::Start(server_options, services));
  std::unique_ptr<HttpServer> metrics;
  if (!coordinator.metrics_listen().empty()) {
    ASSIGN_OR_RETURN(
        metrics,
        ServeMetrics(coordinator.metrics_listen(), [&](MetricsPage& page) {
          AddCoordinatorMetrics(coordinator, page);
          AddSupplyMetrics(slices, page);
        }));
  }
  std::unique_ptr<HttpApi> http;
  if (!http_options.listen.empty()) {
    ASSIGN_OR_RETURN(http, HttpApi::Start(http_options, coordinator,
                                          ModelName(coordinator.model().dir)));
    std::printf("HTTP API at %s/v1\n", http->url().c_str());
  }
  const ServingWatch watch(membership.ticker(), *server);
  AwaitedSignal ending(signals);
  std::printf("listening on %s\n", server->address().c_str());
  std::fflush(stdout);
  spdlog::info("signal {}: draining", ending.Wait());
  admin.EndDrains();
  DrainBoth(*server, http.get());
  return stats_ ? PrintStats(coordinator) : absl::OkStatus();
}

absl::Status ServeCommand::PrintStats(const Coordinator& coordinator) const {
  const RunStatistics statistics = coordinator.Statistics();
  const std::string text =
      json_ ? StatisticsJson(statistics) + '\n' : StatsTable(statistics);
  std::fputs(text.c_str(), stdout);
  return absl::OkStatus();
}

}  // namespace deltafin
