// tests/integration/joined_cluster.h
//
// A coordinator that accepts nodes, and nodes that join it, as processes.
// Thread-compatible. All end with the object.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "proto/admin.grpc.pb.h"
#include "tests/integration/inference_client.h"
#include "tests/testing/temp_dir.h"

namespace deltafin::testing {

class JoinedCluster {
 public:
  // Starts the coordinator alone. Fails the calling test where that fails; all
  // methods do.
  explicit JoinedCluster(const Words& serve_flags = {},
                         const ProcessOptions& server = {});

  ServeProcess& server() { return *server_; }
  // Ends the coordinator with SIGTERM and starts it again at its address.
  void RestartServer();

  // Starts a node with the data folder of this name.
  void StartNode(const std::string& name, const Words& flags = {});
  // The same without a model: it learns it from the coordinator and holds its
  // share.
  void StartSharingNode(const std::string& name, const Words& flags = {});
  // Removes what is in the data folder. REQUIRES: the node does not run.
  void WipeNode(const std::string& name);
  void KillNode(const std::string& name);  // SIGKILL
  void StopNode(const std::string& name);  // SIGTERM, and waits
  Process& node(const std::string& name);
  std::string FolderOf(const std::string& name) const;

  v1::ClusterHealth Health();
  // Asks for the health until `accept` says true; fails the calling test after
  // a minute.
  v1::ClusterHealth WaitForHealth(
      const std::function<bool(const v1::ClusterHealth&)>& accept);
  // The same until exactly `num_serving` members are listed, all serving.
  v1::ClusterHealth WaitForServing(int num_serving);
  // What the health service says of the InferenceService.
  bool IsServing();

 private:
  void Run(const std::string& name, const Words& flags);

  struct Node {
    std::string name;
    std::unique_ptr<Process> process;
  };

  const TempDir dir_;
  const Words serve_flags_;
  const ProcessOptions server_options_;
  std::unique_ptr<ServeProcess> server_;
  std::vector<Node> nodes_;
};

}  // namespace deltafin::testing
