// tests/testing/temp_dir.h
//
// A directory that lives as long as the object.
#pragma once

#include <string>

namespace deltafin {

class TempDir {
 public:
  // Made under $TMPDIR or /tmp; aborts when that fails.
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace deltafin
