// expert_node/storage/hub_client.h
//
// What the Hub's own host is asked: the commit of a revision, the list of its
// files, where a file's bytes are. Credentials go nowhere else. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "expert_node/storage/http_range_reader.h"
#include "expert_node/storage/hub_listing.h"
#include "expert_node/storage/hub_options.h"
#include "expert_node/storage/request_tries.h"

namespace deltafin {

class HubClient {
 public:
  // `options`, `reader` and `pace` must outlive the client.
  HubClient(const HubOptions& options, HttpRangeReader& reader,
            RequestPace& pace);

  // The commit that options.model.revision names now.
  absl::StatusOr<std::string> ResolveRevision();

  // All files of a commit, sorted by name.
  absl::StatusOr<std::vector<HubFile>> ListFiles(const std::string& commit);

  // The URL of the file's bytes: a signed one on another host, or one of the
  // Hub itself. Errors: DATA_LOSS when the file is not what the list says.
  absl::StatusOr<std::string> Locate(const std::string& commit,
                                     const HubFile& file);

  // Header lines of a request to `url`: with the token only where scheme, host
  // and port are the endpoint's, and https or loopback.
  std::vector<std::string> HeaderLines(const std::string& url) const;
  // Whether `url` is the Hub's own.
  bool IsHub(const std::string& url) const;

  // What an answer that is no success means, and what to do about it; `what`
  // names what was asked for.
  absl::Status Refusal(const HttpAnswer& answer, std::string_view what) const;

 private:
  // Asks until there is a success, or an error that stays; follows redirects
  // within the Hub, at most five. `url` becomes the last one asked. An answer
  // that redirects to another host is a success.
  absl::StatusOr<HttpAnswer> Ask(TransferRequest::Method method,
                                 std::string& url, std::string_view what);
  absl::StatusOr<HttpAnswer> AskOnce(TransferRequest::Method method,
                                     std::string& url);

  const HubOptions& options_;
  HttpRangeReader& reader_;
  RequestPace& pace_;
};

}  // namespace deltafin
