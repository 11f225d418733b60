// tests/fuzz/silence.h
//
// What is wrong with bytes is no news in a fuzz target.
#pragma once

#include <google/protobuf/stubs/logging.h>

#include "common/base/log.h"

namespace deltafin {

// Once, before the first input: static const bool silent = Silence();
inline bool Silence() {
  spdlog::set_level(spdlog::level::off);
  google::protobuf::SetLogHandler(nullptr);
  return true;
}

}  // namespace deltafin
