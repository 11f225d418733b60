#include "common/net/http_server.h"

#include <httplib.h>
#include <sys/socket.h>

#include <atomic>
#include <cctype>
#include <chrono>
#include <deque>
#include <thread>
#include <utility>

#include "common/base/mutex.h"
#include "common/base/thread_affinity.h"
#include "common/net/credentials.h"
#include "common/net/listen_address.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

constexpr std::chrono::seconds kSilence{2};
constexpr size_t kMaxBodyBytes = 1024;  // read and ignored

// Connections and the threads that serve them. Enqueue blocks while too many
// wait, which stops accepting.
class BoundedTasks : public httplib::TaskQueue {
 public:
  BoundedTasks(int num_threads, int max_waiting)
      : max_waiting_(static_cast<size_t>(max_waiting)) {
    for (int i = 0; i < num_threads; ++i) {
      threads_.emplace_back([this] {
        SetThreadName("http");
        Work();
      });
    }
  }

  void enqueue(std::function<void()> task) override {
    MutexLock lock(mutex_);
    while (tasks_.size() >= max_waiting_) changed_.Wait(mutex_);
    tasks_.push_back(std::move(task));
    changed_.NotifyAll();
  }

  void shutdown() override {
    {
      MutexLock lock(mutex_);
      is_ended_ = true;
      changed_.NotifyAll();
    }
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  // Tasks that wait at the end are run: they close their sockets.
  void Work() {
    while (true) {
      std::function<void()> task;
      {
        MutexLock lock(mutex_);
        while (tasks_.empty() && !is_ended_) changed_.Wait(mutex_);
        if (tasks_.empty()) return;
        task = std::move(tasks_.front());
        tasks_.pop_front();
        changed_.NotifyAll();
      }
      task();
    }
  }

  const size_t max_waiting_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool is_ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

// The library would let two programs share a port.
void SetSocketOptions(socket_t socket) {
  const int on = 1;
  setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
}

void SetLimits(const HttpServerOptions& options, httplib::Server& server) {
  server.new_task_queue = [options] {
    return new BoundedTasks(options.num_threads, options.max_waiting);
  };
  server.set_socket_options(SetSocketOptions);
  server.set_read_timeout(kSilence);
  server.set_write_timeout(kSilence);
  server.set_keep_alive_timeout(kSilence.count());
  server.set_keep_alive_max_count(1);
  server.set_payload_max_length(kMaxBodyBytes);
}

// The path is taken for a regular expression.
std::string Literal(const std::string& path) {
  std::string pattern;
  for (const char c : path) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '/') {
      pattern += '\\';
    }
    pattern += c;
  }
  return pattern;
}

}  // namespace

struct HttpServer::Impl {
  httplib::Server server;
  std::atomic<bool> has_ended{false};
  std::thread acceptor;
};

HttpServer::HttpServer() : impl_(std::make_unique<Impl>()) {}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(
    const HttpServerOptions& options, std::vector<HttpRoute> routes) {
  absl::StatusOr<ListenAddress> address = ListenAddress::Parse(options.listen);
  if (!address.ok()) return address.status();
  if (absl::Status status =
          RequireProtected("listen on", *address, /*is_plaintext=*/true);
      !status.ok()) {
    return status;
  }
  std::unique_ptr<HttpServer> self(new HttpServer());
  httplib::Server& server = self->impl_->server;
  SetLimits(options, server);
  for (HttpRoute& route : routes) {
    server.Get(Literal(route.path),
               [type = route.content_type, body = std::move(route.body)](
                   const httplib::Request&, httplib::Response& response) {
                 response.set_content(body(), type);
               });
  }
  if (address->port == 0) {
    address->port = server.bind_to_any_port(address->host);
  } else if (!server.bind_to_port(address->host, address->port)) {
    address->port = -1;
  }
  if (address->port < 0) {
    return absl::UnavailableError(fmt::format(
        "cannot listen on {}: another program has the port, or the address is "
        "not of this machine; choose another one",
        options.listen));
  }
  self->address_ = address->ToString();
  self->impl_->acceptor = std::thread([&server, &impl = *self->impl_] {
    SetThreadName("http-accept");
    server.listen_after_bind();
    impl.has_ended = true;
  });
  return self;
}

HttpServer::~HttpServer() {
  if (!impl_->acceptor.joinable()) return;
  // Before it runs there is nothing that stop would end.
  while (!impl_->server.is_running() && !impl_->has_ended) {
    std::this_thread::yield();
  }
  impl_->server.stop();
  impl_->acceptor.join();
}

}  // namespace deltafin
