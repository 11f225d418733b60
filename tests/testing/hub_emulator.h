// tests/testing/hub_emulator.h
//
// Hugging Face on this machine: the Hub's API and resolve URLs on one host,
// signed URLs that expire on another, and every misbehaviour on demand. It
// records what it was asked. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/testing/hub_fault.h"

namespace deltafin::testing {

struct HubEmulatorOptions {
  std::string directory;  // the repository's files
  std::string repository = "deltafin/k3-nano";
  std::string revision = "main";  // beside the commit itself
  std::string hub_address = "127.0.0.1";
  std::string cdn_address = "127.0.0.2";
  int hub_port = 0;  // 0: a free one
  int cdn_port = 0;
  // https under certificates of the emulator's own authority; an address is
  // then that of localhost (the Hub) or cdn.localhost: 127.0.0.1.
  enum class Tls { kNone, kHub, kBoth } tls = Tls::kNone;
  std::string token;  // what the Hub asks for; empty: nothing
  absl::Duration url_lifetime = absl::Hours(1);
  uint64_t lfs_from_bytes = 4096;  // smaller files come from the Hub itself
  size_t files_per_page = 1000;
  double bytes_per_second = 0;   // of a connection; 0: no bound
  bool tells_validators = true;  // ETag, X-Linked-Etag, X-Linked-Size
  std::string etag_suffix;       // "-gzip", say; makes the tags weak, too
};

struct HubRequest {
  bool to_cdn = false;
  std::string method;
  std::string target;
  std::string range;  // the field; empty: none
  bool has_authorization = false;
};

class HubEmulator {
 public:
  static absl::StatusOr<std::unique_ptr<HubEmulator>> Start(
      HubEmulatorOptions options);
  ~HubEmulator();
  HubEmulator(const HubEmulator&) = delete;
  HubEmulator& operator=(const HubEmulator&) = delete;

  // For HF_ENDPOINT.
  std::string endpoint() const;
  std::string commit() const;
  // The authority's certificate (PEM), for CURL_CA_BUNDLE; empty without TLS.
  const std::string& authority() const;

  // The next answers of the CDN are wrong; faults queue.
  void Inject(const HubFault& fault);
  // The same for the Hub's host. REQUIRES: a kind that sends no file.
  void InjectAtHub(const HubFault& fault);
  // The Hub says from now on that a file is another than it listed.
  void ChangeFile(const std::string& name);
  // All signed URLs given so far have expired.
  void ExpireUrls();

  std::vector<HubRequest> requests() const;
  // Requests for bytes at the CDN.
  int num_cdn_requests() const;
  // Requests with a credential that came to the CDN.
  int num_foreign_authorizations() const;
  int most_cdn_connections() const;
  // What was asked and sent, as JSON; also GET /emulator/counts at the
  // endpoint.
  std::string CountsJson() const;

 private:
  HubEmulator();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace deltafin::testing
