// tests/testing/faulty_reads.h
//
// The drive as a test wants it: reads by pread of the whole program, counted by
// file and failing where told. Linked into the program, so before the C
// library's. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

namespace deltafin::testing {

// Reads of the file that cover this offset fail with EIO, until ClearFaults.
void FailReadsAt(const std::string& path, int64_t offset);
void ClearFaults();

// Reads of the file so far, failed ones included.
int64_t CountReads(const std::string& path);

}  // namespace deltafin::testing
