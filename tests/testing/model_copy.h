// tests/testing/model_copy.h
//
// A writable copy of a model directory, gone with the object: an int8 spine is
// made beside its model, and tests damage files.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "tests/testing/temp_dir.h"

namespace deltafin::testing {

class ModelCopy {
 public:
  // Copies the regular files of `model_dir`. Ends the program on any error.
  explicit ModelCopy(const std::string& model_dir);

  const std::string& path() const { return dir_.path(); }
  std::string File(const std::string& name) const { return dir_.File(name); }

  // Changes the stored bytes of one tensor in place.
  void EditTensor(const std::string& tensor,
                  const std::function<void(std::span<uint8_t>)>& edit);

 private:
  TempDir dir_;
};

// Changes the bytes of a file in place.
void EditFile(const std::string& path, uint64_t offset,
              const std::function<void(uint8_t&)>& edit);

}  // namespace deltafin::testing
