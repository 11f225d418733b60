#include "common/net/config_file.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include "common/base/file_io.h"
#include "common/base/status_macros.h"
#include "spdlog/fmt/fmt.h"

namespace deltafin {
namespace {

constexpr uint64_t kMaxConfigBytes = uint64_t{1} << 20;

// Collects errors as "path:line:column: message", one a line. The parser counts
// lines and columns from 0.
class ErrorList : public google::protobuf::io::ErrorCollector {
 public:
  explicit ErrorList(const std::string& path) : path_(path) {}

  void AddError(int line, int column, const std::string& message) override {
    if (!text_.empty()) text_ += '\n';
    text_ += fmt::format("{}:{}:{}: {}", path_, line + 1, column + 1, message);
  }
  const std::string& text() const { return text_; }

 private:
  const std::string path_;
  std::string text_;
};

}  // namespace

absl::Status ReadConfigFile(const std::string& path,
                            google::protobuf::Message* config) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxConfigBytes));
  return ParseConfigText(path, text, config);
}

absl::Status ParseConfigText(const std::string& path, const std::string& text,
                             google::protobuf::Message* config) {
  ErrorList errors(path);
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  if (parser.ParseFromString(text, config)) return absl::OkStatus();
  return absl::InvalidArgumentError(errors.text());
}

}  // namespace deltafin
