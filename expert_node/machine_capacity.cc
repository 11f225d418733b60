#include "expert_node/machine_capacity.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/memory_budget.h"
#include "common/base/thread_affinity.h"

namespace deltafin {

v1::NodeCapacity CapacityOfMachine(const std::string& folder) {
  v1::NodeCapacity capacity;
  struct statvfs disk = {};
  if (statvfs(folder.c_str(), &disk) == 0) {
    capacity.set_disk_bytes(uint64_t{disk.f_blocks} * disk.f_frsize);
    capacity.set_disk_free_bytes(uint64_t{disk.f_bavail} * disk.f_frsize);
  }
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_bytes = sysconf(_SC_PAGESIZE);
  capacity.set_memory_bytes(static_cast<uint64_t>(std::max(pages, 0L)) *
                            static_cast<uint64_t>(std::max(page_bytes, 0L)));
  capacity.set_memory_free_bytes(AvailableMemory().value_or(0));
  capacity.set_cores(static_cast<uint32_t>(AllowedCpus().size()));
  return capacity;
}

}  // namespace deltafin
