#include "tests/testing/model_copy.h"

#include <filesystem>
#include <fstream>
#include <vector>

#include "common/base/check.h"
#include "common/base/safetensors.h"

namespace deltafin::testing {
namespace {

namespace fs = std::filesystem;

void EditRange(const std::string& path, uint64_t offset, uint64_t bytes,
               const std::function<void(std::span<uint8_t>)>& edit) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  std::vector<uint8_t> buffer(bytes);
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(reinterpret_cast<char*>(buffer.data()),
            static_cast<std::streamsize>(bytes));
  CHECK(file.good(), path);
  edit(buffer);
  file.seekp(static_cast<std::streamoff>(offset));
  file.write(reinterpret_cast<const char*>(buffer.data()),
             static_cast<std::streamsize>(bytes));
  CHECK(file.good(), path);
}

}  // namespace

ModelCopy::ModelCopy(const std::string& model_dir) {
  for (const auto& entry : fs::directory_iterator(model_dir)) {
    if (!entry.is_regular_file()) continue;
    fs::copy_file(entry.path(), fs::path(path()) / entry.path().filename());
  }
}

void ModelCopy::EditTensor(
    const std::string& tensor,
    const std::function<void(std::span<uint8_t>)>& edit) {
  for (const auto& entry : fs::directory_iterator(path())) {
    if (entry.path().extension() != ".safetensors") continue;
    auto file = SafetensorsFile::Open(entry.path().string());
    CHECK_OK(file.status());
    const TensorInfo* info = (*file)->Find(tensor);
    if (info == nullptr) continue;
    EditRange(entry.path().string(), info->offset, info->bytes, edit);
    return;
  }
  CHECK(false, tensor);
}

void EditFile(const std::string& path, uint64_t offset,
              const std::function<void(uint8_t&)>& edit) {
  EditRange(path, offset, 1, [&](std::span<uint8_t> bytes) { edit(bytes[0]); });
}

}  // namespace deltafin::testing
