// Times a layer whose experts cost nothing through dispatcher, stream and node,
// against a bare TCP ping-pong of the same bytes in the same run.

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/child.h"
#include "bench/empty_node.h"
#include "bench/flags.h"
#include "bench/ping_pong.h"
#include "bench/site.h"
#include "common/base/check.h"
#include "common/base/log.h"
#include "common/net/cluster_token.h"
#include "common/net/credentials.h"
#include "coordinator/cluster/static_cluster.h"
#include "coordinator/engine/expert_dispatcher.h"

namespace deltafin::bench {
namespace {

constexpr int kMostTokens = 1 << 14;
constexpr int kMostNodes = 64;

constexpr char kHelp[] =
    "usage: dispatch_round_trip [--tokens 1,512,2048] [--nodes 1,4] "
    "[--seconds S] [--lan] [--tls] [--json]\n"
    "Time of one layer at latent width 3584 whose kernel returns at once: "
    "requests cut to\n"
    "128 tokens, sums for every token from every node, one process a node. "
    "Beside it a\n"
    "blocking TCP ping-pong of the same payload bytes with as many processes, "
    "taking turns\n"
    "with it; the ratio is of the medians. \"in-process\" is a node in this "
    "process.\n"
    "--seconds: for each row, default 2. --lan: each process in a network "
    "namespace of its\n"
    "own, 1 Gbit/s and 0.3 ms one way (needs root), with --tls. --tls: nodes "
    "and "
    "dispatcher "
    "prove a\n"
    "cluster token.\n";

struct Options {
  std::vector<int> tokens = {1, 512, 2048};
  std::vector<int> nodes = {1, 4};
  double seconds = 2;
  bool json = false;
  bool tls = false;
  bool lan = false;
};

Options ParseOptions(int argc, char** argv) {
  Options options;
  Flags flags("dispatch_round_trip", kHelp);
  flags.AddNumbers("--tokens", options.tokens, 1, kMostTokens);
  flags.AddNumbers("--nodes", options.nodes, 1, kMostNodes);
  flags.AddPositive("--seconds", options.seconds);
  flags.AddSwitch("--lan", options.lan);
  flags.AddSwitch("--tls", options.tls);
  flags.AddSwitch("--json", options.json);
  flags.Parse(argc, argv);
  if (options.lan) options.tls = true;  // nothing else is served there
  return options;
}

// Of a token that nobody else has. REQUIRES: this process has no threads yet.
Credentials FreshCredentials() {
  std::string dir = "/tmp/dispatch_round_trip-XXXXXX";
  CHECK(mkdtemp(dir.data()) != nullptr);
  const std::string path = dir + "/token";
  CHECK_OK(MakeClusterTokenFile(path));
  auto credentials = Credentials::Load({path, "", "", ""}, absl::Now());
  CHECK_OK(credentials.status());
  unlink(path.c_str());
  rmdir(dir.c_str());
  return *std::move(credentials);
}

// Place 0 is the dispatcher's, the nodes have those from 1 on.
std::unique_ptr<Child> NodeChild(const Site& site, int place,
                                 const Credentials& credentials) {
  return std::make_unique<Child>([&](const std::function<void(int)>& tell) {
    site.Enter(place);
    const auto node = StartEmptyNode(site.host(place) + ":0", credentials);
    tell(node->bound_port());
    pause();
  });
}

std::unique_ptr<Child> PongChild(const Site& site, int place) {
  return std::make_unique<Child>([&](const std::function<void(int)>& tell) {
    site.Enter(place);
    PongServer server(site.host(place));
    tell(server.port());
    server.Serve();
  });
}

// A step's router output: every token uses all 16 experts.
struct Layer {
  explicit Layer(int num_tokens)
      : latent(size_t{1} * num_tokens * kLatent, 0.5f) {
    for (int t = 0; t < num_tokens; ++t) {
      for (int e = 0; e < kTopK; ++e) experts.push_back(e);
    }
    weights.assign(experts.size(), 1.0f / kTopK);
    routed = {num_tokens, kTopK, experts, weights, latent};
  }
  static constexpr int kLatent = 3584;
  static constexpr int kTopK = 16;

  std::vector<float> latent;
  std::vector<int32_t> experts;
  std::vector<float> weights;
  RoutedTokens routed;
};

class Dispatch {
 public:
  explicit Dispatch(std::vector<Member> members)
      : cluster_({.num_slices = EmptyModelSpec().expert_shape().num_slices()},
                 std::move(members)) {
    DispatcherOptions options;
    options.identity = {kEmptyModelDigest, "dispatch_round_trip"};
    options.latent_size = EmptyModelSpec().expert_shape().latent_size;
    options.kernel = &BestKernel().elementwise;
    dispatcher_ = std::make_unique<ExpertDispatcher>(options, cluster_);
    CHECK_OK(dispatcher_->ConnectAll());
  }
  void Run(const Layer& layer) {
    CHECK_OK(dispatcher_->Start(++step_, 1, layer.routed));
    CHECK_OK(dispatcher_->Wait([] { return false; }).status());
  }

 private:
  StaticCluster cluster_;
  std::unique_ptr<ExpertDispatcher> dispatcher_;
  uint64_t step_ = 0;
};

// Requests to all peers, then all replies; parts of 128 tokens as the
// dispatcher cuts them.
void PingAll(std::vector<std::unique_ptr<PingClient>>& peers, int num_tokens) {
  const size_t floats = size_t{1} * num_tokens * Layer::kLatent;
  for (auto& peer : peers) peer->Send(4 * floats, 8 * floats);
  for (auto& peer : peers) peer->Receive();
}

double SecondsOf(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
      .count();
}

double Quantile(std::vector<double>& values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(q * (values.size() - 1))];
}

struct Row {
  std::string path;
  int nodes;
  int tokens;
  size_t calls;
  double p50, p99, raw_p50, raw_p99;  // microseconds
};

Row Measure(const std::string& path, Dispatch& dispatch,
            std::vector<std::unique_ptr<PingClient>>& peers, int num_tokens,
            double seconds) {
  const Layer layer(num_tokens);
  std::vector<double> ours, raw;
  for (int i = 0; i < 20; ++i) {
    dispatch.Run(layer);
    PingAll(peers, num_tokens);
  }
  // Stretches of calls of one kind, so that each runs warm.
  for (double spent = 0; spent < seconds || ours.size() < 30;) {
    for (int i = 0; i < 10; ++i) {
      ours.push_back(1e6 * SecondsOf([&] { dispatch.Run(layer); }));
      spent += ours.back() / 1e6;
    }
    for (int i = 0; i < 10; ++i) {
      raw.push_back(1e6 * SecondsOf([&] { PingAll(peers, num_tokens); }));
      spent += raw.back() / 1e6;
    }
  }
  return {path,
          static_cast<int>(peers.size()),
          num_tokens,
          ours.size(),
          Quantile(ours, 0.5),
          Quantile(ours, 0.99),
          Quantile(raw, 0.5),
          Quantile(raw, 0.99)};
}

void Print(const Row& row, bool json) {
  const double ratio = row.p50 / row.raw_p50;
  if (json) {
    std::printf(
        "{\"path\": \"%s\", \"nodes\": %d, \"tokens\": %d, \"calls\": %zu, "
        "\"p50_us\": %.1f, \"p99_us\": %.1f, \"tcp_p50_us\": %.1f, "
        "\"tcp_p99_us\": %.1f, \"ratio\": %.2f}\n",
        row.path.c_str(), row.nodes, row.tokens, row.calls, row.p50, row.p99,
        row.raw_p50, row.raw_p99, ratio);
  } else {
    std::printf("%-10s %5d %6d %7zu %10.1f %10.1f %10.1f %10.1f %6.2f\n",
                row.path.c_str(), row.nodes, row.tokens, row.calls, row.p50,
                row.p99, row.raw_p50, row.raw_p99, ratio);
  }
  std::fflush(stdout);
}

Member MakeMember(std::string name, std::shared_ptr<grpc::Channel> channel) {
  Member member;
  member.name = std::move(name);
  member.channel = std::move(channel);
  return member;
}

std::vector<Member> Members(const Site& site,
                            const std::vector<std::unique_ptr<Child>>& nodes,
                            int count, const Credentials& credentials) {
  std::vector<Member> members;
  for (int i = 0; i < count; ++i) {
    const std::string address =
        site.host(i + 1) + ":" + std::to_string(nodes[i]->port());
    members.push_back(
        MakeMember(address, MakeExpertChannel(address, credentials)));
  }
  return members;
}

void Run(const Options& options) {
  const Credentials credentials =
      options.tls ? FreshCredentials() : Credentials();
  const int most =
      *std::max_element(options.nodes.begin(), options.nodes.end());
  const std::unique_ptr<Site> site =
      options.lan ? LanSite(most + 1) : LoopbackSite();
  std::vector<std::unique_ptr<Child>> nodes, pongs;
  for (int i = 1; i <= most; ++i) pongs.push_back(PongChild(*site, i));
  for (int i = 1; i <= most; ++i) {
    nodes.push_back(NodeChild(*site, i, credentials));
  }
  site->Enter(0);
  std::vector<std::unique_ptr<PingClient>> all_peers;
  for (int i = 0; i < most; ++i) {
    all_peers.push_back(
        std::make_unique<PingClient>(site->host(i + 1), pongs[i]->port()));
  }
  if (!options.json) {
    std::puts(
        "path       nodes tokens   calls     p50 us     p99 us"
        "    tcp p50    tcp p99  ratio");
  }
  const auto measure = [&](const std::string& path, Dispatch& dispatch,
                           int count) {
    std::vector<std::unique_ptr<PingClient>> peers;
    for (int i = 0; i < count; ++i) peers.push_back(std::move(all_peers[i]));
    for (const int num_tokens : options.tokens) {
      Print(Measure(path, dispatch, peers, num_tokens, options.seconds),
            options.json);
    }
    for (int i = 0; i < count; ++i) all_peers[i] = std::move(peers[i]);
  };
  for (const int count : options.nodes) {
    Dispatch dispatch(Members(*site, nodes, count, credentials));
    const std::string path = options.lan ? "lan" : "loopback";
    measure(options.tls ? path + " tls" : path, dispatch, count);
  }
  if (options.lan) return;
  const auto own = StartEmptyNode("");
  Dispatch dispatch({MakeMember("in-process", own->InProcessChannel())});
  measure("in-process", dispatch, 1);
}

}  // namespace
}  // namespace deltafin::bench

int main(int argc, char** argv) {
  const auto options = deltafin::bench::ParseOptions(argc, argv);
  deltafin::SetLogLevel("error").IgnoreError();
  deltafin::bench::Run(options);
  return 0;
}
