#include "coordinator/frontend/web_page.h"

#include <algorithm>
#include <utility>

#include "common/base/digest.h"
#include "common/net/http_routes.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

constexpr char kPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'";
constexpr size_t kEtagDigits = 20;

std::string TypeOf(std::string_view path) {
  constexpr std::pair<std::string_view, std::string_view> kTypes[] = {
      {".html", "text/html; charset=utf-8"},
      {".js", "text/javascript; charset=utf-8"},
      {".css", "text/css; charset=utf-8"},
      {".svg", "image/svg+xml"}};
  for (const auto& [ending, type] : kTypes) {
    if (path.ends_with(ending)) return std::string(type);
  }
  return "application/octet-stream";
}

std::string EtagOf(std::string_view content) {
  const std::string digest = Sha256Hex(
      {reinterpret_cast<const uint8_t*>(content.data()), content.size()});
  return fmt::format("\"{}\"", digest.substr(0, kEtagDigits));
}

// A tag holds no comma and no quote inside, so that it is found as it is in a
// list of them, weak or not.
bool HasAlready(const HttpRequest& request, std::string_view etag) {
  const std::string* known = request.Header("if-none-match");
  return known != nullptr &&
         (*known == "*" || known->find(etag) != std::string::npos);
}

}  // namespace

WebPage::WebPage(std::span<const WebFile> files) {
  for (const WebFile& file : files) {
    const bool is_start = file.path == "index.html";
    files_.push_back({is_start ? "/" : fmt::format("/{}", file.path),
                      file.content, TypeOf(file.path), EtagOf(file.content)});
  }
}

std::vector<std::string> WebPage::paths() const {
  std::vector<std::string> paths;
  for (const Served& file : files_) paths.push_back(file.path);
  return paths;
}

void WebPage::Handle(const HttpRequest& request, HttpReply& reply) const {
  const auto found = std::find_if(
      files_.begin(), files_.end(),
      [&](const Served& file) { return file.path == request.path; });
  if (found == files_.end()) return SendNotFound(reply, request.path);
  if (request.method != "GET" && request.method != "HEAD") {
    return SendMethodNotAllowed(reply, "GET, HEAD");
  }
  HttpHeaders headers = {{"ETag", found->etag},
                         {"Cache-Control", "no-cache"},
                         {"Content-Security-Policy", kPolicy},
                         {"X-Content-Type-Options", "nosniff"},
                         {"Referrer-Policy", "no-referrer"},
                         {"Cross-Origin-Opener-Policy", "same-origin"},
                         {"Cross-Origin-Resource-Policy", "same-origin"}};
  if (HasAlready(request, found->etag)) {
    return reply.Send(304, std::move(headers), "");
  }
  headers.emplace_back("Content-Type", found->type);
  reply.Send(200, std::move(headers), std::string(found->content));
}

}  // namespace deltafin
