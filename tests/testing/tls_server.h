// tests/testing/tls_server.h
//
// The server's end of TLS for emulated hosts. Blocking.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/net/certificate.h"

struct ssl_ctx_st;
struct ssl_st;

namespace deltafin::testing {

// Who a server says it is. Thread-safe.
class TlsIdentity {
 public:
  // `host`: the name by which clients call the server, one of the certificate.
  static absl::StatusOr<std::shared_ptr<const TlsIdentity>> Make(
      const std::string& host, const CertificateAndKey& own);
  ~TlsIdentity();
  TlsIdentity(const TlsIdentity&) = delete;
  TlsIdentity& operator=(const TlsIdentity&) = delete;

  const std::string& host() const { return host_; }

 private:
  friend class TlsConnection;
  TlsIdentity(std::string host, ssl_ctx_st* context)
      : host_(std::move(host)), context_(context) {}

  const std::string host_;
  ssl_ctx_st* const context_;
};

// One connection over a socket that it does not own. Thread-compatible.
class TlsConnection {
 public:
  TlsConnection(const TlsIdentity& identity, int fd);
  ~TlsConnection();
  TlsConnection(const TlsConnection&) = delete;
  TlsConnection& operator=(const TlsConnection&) = delete;

  // False when the client refuses, or is none.
  bool Accept();
  // As recv and send.
  ssize_t Read(void* bytes, size_t size);
  ssize_t Write(const void* bytes, size_t size);

 private:
  ssl_st* const ssl_;
};

}  // namespace deltafin::testing
