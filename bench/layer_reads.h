// bench/layer_reads.h
//
// The ways to read a layer of full-size records that storage_tiers compares.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "bench/measurement.h"
#include "bench/reader_threads.h"
#include "bench/record_drive.h"
#include "expert_node/storage/record_store.h"

namespace deltafin::bench {

class LayerReads {
 public:
  struct Options {
    int readers = 6;        // threads that read and check
    int reads_at_once = 4;  // of the drive
  };
  // `store` must outlive the object.
  LayerReads(RecordStore& store, const Options& options);

  std::string DataFile(int layer) const;

  // Preads of an expert each: as many at once and into as much memory as the
  // store's.
  Measured Plain(int layer);
  // Preads of a slice into the memory of a slice a thread: none is kept.
  Measured IntoSmallBuffers(int layer);
  Measured ThroughStore(int layer);
  // The same requests by the store's file and turns, nothing checked: what
  // reading alone costs. (Beside a check the drive's interrupts meet a busy
  // processor and count as its work.)
  Measured Unchecked(int layer);
  // REQUIRES: fio is installed.
  Measured ByFio(int layer);

  // CPU of the checks of the last ThroughStore.
  double CheckSeconds() const;
  // The layer of the last Plain, ThroughStore or Unchecked, expert by expert.
  const uint8_t* bytes() const { return layer_.data(); }

 private:
  uint8_t* SliceAt(int expert, int slice) {
    return layer_.data() + kRecordShape.payload_bytes() * expert +
           kRecordShape.slice_offset(slice);
  }

  RecordStore& store_;
  const Options options_;
  const int slices_per_read_;
  ReaderThreads plain_readers_;
  ReaderThreads store_readers_;
  HugeBuffer layer_;
  // CPU of the checks of slices that are not the first of their read: nothing
  // else lies between them.
  std::atomic<int64_t> later_check_ns_ = 0;
};

}  // namespace deltafin::bench
