// expert_node/storage/file_download.h
//
// A file of a model source brought to disk whole: in pieces, resumed after a
// kill at any point, and under its final name only with the right SHA-256.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "expert_node/storage/model_source.h"

namespace deltafin {

struct DownloadOptions {
  // Bytes of a read; what a kill loses is at most the pieces being read. 0: a
  // 400th of the file, between 16 KiB and 16 MiB, so that five kills cost less
  // than 2 % of it.
  uint64_t piece_bytes = 0;
  // Pieces read at once; memory is one piece for each. Files below 64 MiB are
  // read one piece after the other.
  int parallel = 4;
  // Called after each piece, from the calling thread, with the bytes of the
  // file that are on disk. May be empty.
  std::function<void(uint64_t done_bytes, uint64_t total_bytes)> progress;
  // Asked before each piece; true ends the download with CANCELLED and keeps
  // what is there. May be empty.
  std::function<bool()> cancelled;
};

// Reads `file` of `source` to `path`, whose folder must exist; a file of that
// name and size is taken to be it and not read (its digest is not checked).
// What has arrived is kept beside it as `path`.DIGEST.part, DIGEST the first
// digits of file.sha256, and a later call goes on from there; parts of `path`
// with other digests are removed. Blocks. Errors: those of source.Read;
// DATA_LOSS when all has arrived and the SHA-256 is another (then the part is
// removed, so that the next call starts over); UNAVAILABLE when another process
// is at it; those of the file system.
absl::Status DownloadFile(ModelSource& source, const SourceFile& file,
                          const std::string& path,
                          const DownloadOptions& options = {});

}  // namespace deltafin
