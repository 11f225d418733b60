// Input: the bytes of a ReadSlicesRequest. What passes the checks must name
// slices of the model: the store is asked for nothing else, and what it gives
// goes out whole.

#include <string>
#include <vector>

#include "common/base/check.h"
#include "expert_node/slice_sender.h"

using deltafin::ExpertKey;
using deltafin::ExpertShape;
using deltafin::SliceRun;

namespace {

// Layers 1..3, 8 experts of 3 slices, width 32.
deltafin::ModelSpec Spec() {
  deltafin::ModelSpec spec;
  spec.num_hidden_layers = 4;
  spec.first_k_dense_replace = 1;
  spec.num_experts = 8;
  spec.routed_expert_hidden_size = 32;
  spec.moe_intermediate_size = 544;
  return spec;
}

// Holds the experts with even numbers.
class CheckedStore : public deltafin::ExpertStore {
 public:
  const ExpertShape& shape() const override { return shape_; }
  absl::StatusOr<uint64_t> Read(ExpertKey key, SliceRun run,
                                std::span<uint8_t* const> out,
                                absl::FunctionRef<void(int)> ready) override {
    CHECK(key.layer >= 1 && key.layer <= 3);
    CHECK(key.expert >= 0 && key.expert < 8);
    CHECK(run.first >= 0 && run.count >= 1 && run.first + run.count <= 3);
    CHECK(out.size() == static_cast<size_t>(run.count));
    if (key.expert % 2 != 0) return absl::NotFoundError("not here");
    for (int i = 0; i < run.count; ++i) {
      const int slice = run.first + i;
      for (size_t at = shape_.slice_offset(slice);
           at < shape_.slice_offset(slice + 1); ++at) {
        out[i][at - shape_.slice_offset(slice)] = static_cast<uint8_t>(slice);
      }
      ready(slice);
    }
    return 0;
  }

 private:
  const ExpertShape shape_ = Spec().expert_shape();
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  deltafin::v1::ReadSlicesRequest request;
  if (!request.ParseFromArray(bytes, static_cast<int>(size))) return 0;
  CheckedStore store;
  deltafin::SliceSender sender(Spec(), "m", store);
  uint32_t next = request.first_slice();
  const absl::Status status = sender.Send(
      request, [] { return false; },
      [&next, &store](const deltafin::v1::SliceBytes& slice) {
        CHECK(slice.slice() == next++);
        CHECK(slice.data().size() ==
              store.shape().slice_offset(slice.slice() + 1) -
                  store.shape().slice_offset(slice.slice()));
        return true;
      });
  if (status.ok()) {
    CHECK(next == request.first_slice() + request.num_slices());
  } else {
    CHECK(next == request.first_slice());
    CHECK(!status.message().empty());
  }
  return 0;
}
