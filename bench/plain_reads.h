// bench/plain_reads.h
//
// How fast a drive gives whole files: to plain direct reads, to the row stream
// of a spine, to fio. All with four requests of 4 MiB at once.
#pragma once

#include <string>
#include <vector>

namespace deltafin::bench {

// Bytes a second. All end the program on an error.

// Into memory of the stream's size, two files of it, as they are to be kept.
double PlainRate(const std::vector<std::string>& files);
// Into memory of one request a thread, over and over, as fio does: none is
// kept, so that bytes need not leave a cache.
double SmallBufferRate(const std::vector<std::string>& files);
// The same files as a spine's stream reads them, checked; their header aside.
double StreamRate(const std::vector<std::string>& files);
// 0 where fio is not installed or says nothing.
double FioRate(const std::vector<std::string>& files);

}  // namespace deltafin::bench
