#include "tests/testing/temp_dir.h"

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace deltafin {

TempDir::TempDir()
    : path_((std::filesystem::temp_directory_path() / "deltafin-XXXXXX")
                .string()) {
  if (mkdtemp(path_.data()) == nullptr) std::abort();
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace deltafin
