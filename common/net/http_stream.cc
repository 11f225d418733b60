#include "common/net/http_stream.h"

#include <fcntl.h>
#include <netinet/tcp.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <chrono>
#include <exception>
#include <future>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/base/thread_affinity.h"

namespace deltafin {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using Strand = asio::strand<asio::io_context::executor_type>;
using Socket = asio::basic_stream_socket<tcp, Strand>;
using TlsSocket = asio::ssl::stream<Socket>;
using Timer =
    asio::basic_waitable_timer<std::chrono::steady_clock,
                               asio::wait_traits<std::chrono::steady_clock>,
                               Strand>;

constexpr absl::Duration kPauseWhenFull = absl::Milliseconds(100);
// What the kernel takes for a client that does not read, twice over: without a
// bound it takes megabytes, minutes of a stream of text, before anybody sees
// that the client has stalled. Enough for 20 Mbit/s at 100 ms.
constexpr int kSendBufferBytes = 256 << 10;

void SetSocketOptions(Socket& socket, absl::Duration send_timeout) {
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  socket.set_option(asio::socket_base::send_buffer_size(kSendBufferBytes),
                    ignored);
  const int fd = socket.native_handle();
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  const auto timeout_ms =
      static_cast<unsigned>(absl::ToInt64Milliseconds(send_timeout));
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms,
             sizeof(timeout_ms));
}

// SocketT: Socket or TlsSocket.
template <typename SocketT>
class AsioStream : public HttpStream,
                   public std::enable_shared_from_this<AsioStream<SocketT>> {
 public:
  static constexpr bool kIsTls = std::is_same_v<SocketT, TlsSocket>;

  explicit AsioStream(SocketT socket)
      : socket_(std::move(socket)), timer_(socket_.get_executor()) {}

  void Post(std::function<void()> f) override {
    asio::post(socket_.get_executor(), std::move(f));
  }

  void Handshake(std::function<void(bool)> done) override {
    if constexpr (kIsTls) {
      socket_.async_handshake(asio::ssl::stream_base::server,
                              [self = this->shared_from_this(),
                               done = std::move(done)](error_code error) {
                                if (self->is_open_) done(!error);
                              });
    } else {
      Post([done = std::move(done)] { done(true); });
    }
  }

  void Read(std::span<char> buffer, Moved moved) override {
    socket_.async_read_some(
        asio::buffer(buffer.data(), buffer.size()),
        [self = this->shared_from_this(), moved = std::move(moved)](
            error_code error, size_t size) {
          if (self->is_open_) moved(error ? 0 : size);
        });
  }

  void Write(std::string_view bytes, Moved moved) override {
    socket_.async_write_some(
        asio::buffer(bytes.data(), bytes.size()),
        [self = this->shared_from_this(), moved = std::move(moved)](
            error_code error, size_t size) {
          if (self->is_open_) moved(error ? 0 : size);
        });
  }

  void EndWriting() override {
    error_code ignored;
    if constexpr (kIsTls) {
      // Ends when the other side has answered, or with Close.
      socket_.async_shutdown([self = this->shared_from_this()](error_code) {});
    } else {
      socket_.shutdown(tcp::socket::shutdown_send, ignored);
    }
  }

  void SetTimer(absl::Duration delay, std::function<void()> f) override {
    timer_.expires_after(absl::ToChronoNanoseconds(delay));
    // One that has expired may come after it was replaced.
    timer_.async_wait([self = this->shared_from_this(), turn = ++timer_turn_,
                       f = std::move(f)](error_code error) {
      if (!error && self->is_open_ && turn == self->timer_turn_) f();
    });
  }

  void CancelTimer() override {
    ++timer_turn_;
    timer_.cancel();
  }

  void Close() override {
    is_open_ = false;
    CancelTimer();
    error_code ignored;
    socket_.lowest_layer().close(ignored);
  }

 private:
  SocketT socket_;
  Timer timer_;
  uint64_t timer_turn_ = 0;
  bool is_open_ = true;
};

absl::Status LoadTls(const std::string& certificate, const std::string& key,
                     asio::ssl::context& context) {
  error_code error;
  context.set_options(
      asio::ssl::context::default_workarounds | asio::ssl::context::no_tlsv1 |
      asio::ssl::context::no_tlsv1_1 | asio::ssl::context::no_compression);
  // An encrypted key is refused, not asked for at the terminal.
  context.set_password_callback(
      [](size_t, asio::ssl::context::password_purpose) {
        return std::string();
      },
      error);
  context.use_certificate_chain(asio::buffer(certificate), error);
  if (error) {
    return absl::InvalidArgumentError(
        fmt::format("that is no certificate: {}", error.message()));
  }
  context.use_private_key(asio::buffer(key), asio::ssl::context::pem, error);
  if (error) {
    return absl::InvalidArgumentError(fmt::format(
        "the key is none, or not the certificate's: {}", error.message()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckHttpCertificate(const std::string& certificate,
                                  const std::string& key) {
  try {
    asio::ssl::context context(asio::ssl::context::tls_server);
    return LoadTls(certificate, key, context);
  } catch (const std::exception& error) {
    return absl::InternalError(fmt::format("TLS: {}", error.what()));
  }
}

class HttpListener::Impl {
 public:
  explicit Impl(const HttpListenerOptions& options)
      : options_(options),
        work_(io_.get_executor()),
        strand_(asio::make_strand(io_)),
        acceptor_(strand_),
        pause_(strand_) {}

  absl::Status Init() {
    if (!options_.certificate.empty() || !options_.key.empty()) {
      tls_.emplace(asio::ssl::context::tls_server);
      if (absl::Status status =
              LoadTls(options_.certificate, options_.key, *tls_);
          !status.ok()) {
        return status;
      }
    }
    return Bind();
  }

  void Start(std::function<void(std::shared_ptr<HttpStream>)> accepted,
             std::function<void()> is_full) {
    accepted_ = std::move(accepted);
    is_full_ = std::move(is_full);
    asio::post(strand_, [this] { Accept(); });
    for (int i = 0; i < options_.num_threads; ++i) {
      threads_.emplace_back([this] {
        SetThreadName("http");
        io_.run();
      });
    }
  }

  void StopAccepting() {
    const auto stopped = std::make_shared<std::promise<void>>();
    asio::post(strand_, [this, stopped] {
      error_code ignored;
      acceptor_.close(ignored);
      pause_.cancel();
      stopped->set_value();
    });
    stopped->get_future().wait();
  }

  void Join() {
    work_.reset();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  int port() const { return port_; }

 private:
  absl::Status Bind();
  error_code BindTo(const tcp::endpoint& endpoint);
  void Accept();
  void Take(Socket socket);

  const HttpListenerOptions options_;
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::optional<asio::ssl::context> tls_;
  Strand strand_;  // of the acceptor
  asio::basic_socket_acceptor<tcp, Strand> acceptor_;
  Timer pause_;
  std::function<void(std::shared_ptr<HttpStream>)> accepted_;
  std::function<void()> is_full_;
  std::vector<std::thread> threads_;
  int port_ = 0;
};

error_code HttpListener::Impl::BindTo(const tcp::endpoint& endpoint) {
  error_code error;
  acceptor_.close(error);
  acceptor_.open(endpoint.protocol(), error);
  if (error) return error;
  fcntl(acceptor_.native_handle(), F_SETFD, FD_CLOEXEC);
  acceptor_.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (!error)
    acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (!error) port_ = acceptor_.local_endpoint(error).port();
  return error;
}

absl::Status HttpListener::Impl::Bind() {
  const ListenAddress& address = options_.address;
  error_code error;
  tcp::resolver resolver(io_);
  const auto found =
      resolver.resolve(address.host, std::to_string(address.port),
                       tcp::resolver::passive, error);
  if (error) {
    return absl::InvalidArgumentError(
        fmt::format("{}: the host '{}' is unknown ({})", address.ToString(),
                    address.host, error.message()));
  }
  for (const auto& entry : found) {
    error = BindTo(entry.endpoint());
    if (!error) return absl::OkStatus();
  }
  return absl::UnavailableError(
      fmt::format("cannot listen on {}: {}; choose another address or port",
                  address.ToString(), error.message()));
}

void HttpListener::Impl::Accept() {
  // Each connection has a strand of its own.
  acceptor_.async_accept(
      asio::make_strand(io_), [this](error_code error, Socket socket) {
        if (!acceptor_.is_open()) return;
        if (!error) Take(std::move(socket));
        if (error != asio::error::no_descriptors &&
            error != boost::system::errc::too_many_files_open_in_system) {
          return Accept();
        }
        is_full_();
        pause_.expires_after(absl::ToChronoNanoseconds(kPauseWhenFull));
        pause_.async_wait([this](error_code) {
          if (acceptor_.is_open()) Accept();
        });
      });
}

void HttpListener::Impl::Take(Socket socket) {
  SetSocketOptions(socket, options_.send_timeout);
  if (tls_) {
    accepted_(std::make_shared<AsioStream<TlsSocket>>(
        TlsSocket(std::move(socket), *tls_)));
  } else {
    accepted_(std::make_shared<AsioStream<Socket>>(std::move(socket)));
  }
}

HttpListener::HttpListener(std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)) {}
HttpListener::~HttpListener() = default;

absl::StatusOr<std::unique_ptr<HttpListener>> HttpListener::Listen(
    const HttpListenerOptions& options) {
  try {
    auto impl = std::make_unique<Impl>(options);
    if (absl::Status status = impl->Init(); !status.ok()) return status;
    return std::unique_ptr<HttpListener>(new HttpListener(std::move(impl)));
  } catch (const std::exception& error) {  // no file descriptors, say
    return absl::UnavailableError(fmt::format(
        "cannot listen on {}: {}", options.address.ToString(), error.what()));
  }
}

void HttpListener::Start(
    std::function<void(std::shared_ptr<HttpStream>)> accepted,
    std::function<void()> is_full) {
  impl_->Start(std::move(accepted), std::move(is_full));
}
void HttpListener::StopAccepting() { impl_->StopAccepting(); }
void HttpListener::Join() { impl_->Join(); }
int HttpListener::port() const { return impl_->port(); }

}  // namespace deltafin
