#include "coordinator/cluster/admin_service.h"

namespace deltafin {

grpc::Status AdminService::GetHealth(grpc::ServerContext*,
                                     const v1::GetHealthRequest*,
                                     v1::ClusterHealth* reply) {
  *reply = registry_.health();
  return grpc::Status::OK;
}

}  // namespace deltafin
