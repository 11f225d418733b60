// expert_node/model_files_client.h
//
// Learns from the coordinator which model a node is to serve: the small files
// that it needs, compared with the manifest that names the model.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/net/credentials.h"
#include "expert_node/model_files_receiver.h"

namespace deltafin {

struct ModelFilesOptions {
  std::string coordinator;  // HOST:PORT
  Credentials credentials;
  std::string folder;  // receives the files as an installed model has them
  // Index and shard headers, too: where each expert lies in released files.
  bool with_shards = false;
  absl::Duration timeout = absl::Minutes(10);
};

// Brings the files of the coordinator's model that the folder lacks. Each has
// its name only when it is whole; the manifest comes last. Blocks. Errors:
// FAILED_PRECONDITION, with both digests, when the folder has another model's;
// DATA_LOSS for files that are not what the manifest says, or larger than any
// such file is; UNAVAILABLE and others of the call; those of the file system.
absl::Status FetchModelFiles(const ModelFilesOptions& options);

}  // namespace deltafin
