#include "tests/testing/tls_server.h"

#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <climits>

#include "common/base/check.h"

namespace deltafin::testing {
namespace {

template <auto kFree>
struct Free {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using Bio = std::unique_ptr<BIO, Free<BIO_free_all>>;

Bio TextBio(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

bool Use(SSL_CTX* context, const CertificateAndKey& own) {
  const std::unique_ptr<X509, Free<X509_free>> certificate(PEM_read_bio_X509(
      TextBio(own.certificate).get(), nullptr, nullptr, nullptr));
  const std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>> key(
      PEM_read_bio_PrivateKey(TextBio(own.key).get(), nullptr, nullptr,
                              nullptr));
  return certificate != nullptr && key != nullptr &&
         SSL_CTX_use_certificate(context, certificate.get()) == 1 &&
         SSL_CTX_use_PrivateKey(context, key.get()) == 1;
}

// A write to a client that is gone is an error, no signal. Of this thread, as
// OpenSSL writes without MSG_NOSIGNAL.
void BlockPipeSignal() {
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
}

int Clamped(size_t size) {
  return static_cast<int>(std::min<size_t>(size, INT_MAX));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const TlsIdentity>> TlsIdentity::Make(
    const std::string& host, const CertificateAndKey& own) {
  SSL_CTX* const context = SSL_CTX_new(TLS_server_method());
  CHECK(context != nullptr);
  std::shared_ptr<const TlsIdentity> identity(new TlsIdentity(host, context));
  if (!Use(context, own)) {
    return absl::InvalidArgumentError("no certificate and key for " + host);
  }
  return identity;
}

TlsIdentity::~TlsIdentity() { SSL_CTX_free(context_); }

TlsConnection::TlsConnection(const TlsIdentity& identity, int fd)
    : ssl_(SSL_new(identity.context_)) {
  CHECK(ssl_ != nullptr);
  SSL_set_fd(ssl_, fd);
}

TlsConnection::~TlsConnection() { SSL_free(ssl_); }

bool TlsConnection::Accept() {
  BlockPipeSignal();
  return SSL_accept(ssl_) == 1;
}

ssize_t TlsConnection::Read(void* bytes, size_t size) {
  return SSL_read(ssl_, bytes, Clamped(size));
}

ssize_t TlsConnection::Write(const void* bytes, size_t size) {
  return SSL_write(ssl_, bytes, Clamped(size));
}

}  // namespace deltafin::testing
