// common/net/peer_rights.h
//
// What a member of the cluster may call: its certificate tells whether it is a
// node's or an administrator's. Decided here for all services, before a call
// reaches one.
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/status.h"

namespace grpc {
class AuthMetadataProcessor;
}

namespace deltafin {

// Whether a method ("/deltafin.v1.AdminService/Drain") changes the cluster or
// what its machines keep, which administrators alone may do. Of the services
// for that, only methods known to do no more than tell are for all members.
bool IsForAdministrators(std::string_view method);

// PERMISSION_DENIED with what to do; `peer` is the name in its certificate.
absl::Status RequireAdministrator(std::string_view method,
                                  std::string_view peer);

// For a server with TLS: ends calls that the peer's certificate gives no right
// to with RequireAdministrator's status. Does not block.
std::shared_ptr<grpc::AuthMetadataProcessor> MakeRightsCheck();

}  // namespace deltafin
