// common/net/config_file.h
//
// Configuration files: one text-format protobuf message per program.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace google::protobuf {
class Message;
}

namespace deltafin {

// Parses the file into `config`. Errors, all starting with PATH:LINE:COLUMN
// where there is one: NOT_FOUND; INVALID_ARGUMENT for an unknown field, a value
// of the wrong type or a syntax error, listing every such place; `config` is
// then undefined.
absl::Status ReadConfigFile(const std::string& path,
                            google::protobuf::Message* config);

// The same of a file's text, which was at `path`; at most 1 MiB.
absl::Status ParseConfigText(const std::string& path, const std::string& text,
                             google::protobuf::Message* config);

}  // namespace deltafin
