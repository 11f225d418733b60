// spine_node/streamed_layers.h
//
// The layers of a spine whose rows memory does not hold: brings each one before
// it is computed. Not thread-safe: used by the thread that drives the spine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "spine_node/row_stream.h"
#include "spine_node/spine_file.h"
#include "spine_node/spine_types.h"
#include "spine_node/unit_layout.h"

namespace deltafin {

struct StreamedLayer {
  int layer = 0;
  UnitLayout layout;  // its views outlive the stream at their addresses
  std::unique_ptr<SpineFile> file;
};

class StreamedLayers {
 public:
  // Fills the rows of a layer whose file is damaged and writes the file again;
  // returns it, open.
  using Remake = std::function<absl::StatusOr<std::unique_ptr<SpineFile>>(
      const UnitLayout& layout, std::span<uint8_t> rows)>;

  // Begins to read the first ones. REQUIRES: not empty, layers ascending.
  // Errors: RESOURCE_EXHAUSTED when memory for the buffers is refused.
  static absl::StatusOr<std::unique_ptr<StreamedLayers>> Start(
      std::vector<StreamedLayer> layers, Remake remake);

  int num_layers() const { return static_cast<int>(layers_.size()); }
  int64_t step_bytes() const { return step_bytes_; }  // read for a step
  uint64_t buffer_bytes() const { return stream_->buffer_bytes(); }

  // Call before every layer of a step, also those in memory, so that a layer's
  // buffer is given back when it is done. Points the views of a streamed one to
  // its rows, waiting for the disk; a damaged file is made again, by the
  // calling thread and those of its pool. Errors: DATA_LOSS naming layer and
  // file; the step cannot go on, a later one reads again.
  absl::Status Prepare(int layer);
  // The last layer of a step is done.
  void Finish();

  // Adds what was read since the last call.
  void TakeCounts(SpineTimings& timings);

 private:
  static constexpr int kNone = -1;

  explicit StreamedLayers(std::vector<StreamedLayer> layers);

  std::vector<StreamedLayer> layers_;  // their files are the stream's
  std::unique_ptr<RowStream> stream_;
  int64_t step_bytes_ = 0;
  int held_layer_ = kNone;  // whose rows are acquired
};

}  // namespace deltafin
