// coordinator/frontend/web_page.h
//
// The files of the web page, which the program has in itself. Thread-safe.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/net/http_message.h"

namespace deltafin {

// One of coordinator/frontend/web/; made by the build.
struct WebFile {
  std::string_view path;  // "app.js"
  std::string_view content;
};
std::span<const WebFile> WebFiles();

class WebPage {
 public:
  explicit WebPage(std::span<const WebFile> files = WebFiles());

  // Where the files are: "/", "/app.js", ...
  std::vector<std::string> paths() const;

  // Answers GET and HEAD of these paths, 304 where the client has the file
  // already. Pages of other sites may neither frame nor read it, and it loads
  // nothing from elsewhere and runs nothing but its own files. 404 for others.
  void Handle(const HttpRequest& request, HttpReply& reply) const;

 private:
  struct Served {
    std::string path;  // with the slash
    std::string_view content;
    std::string type;
    std::string etag;
  };

  std::vector<Served> files_;
};

}  // namespace deltafin
