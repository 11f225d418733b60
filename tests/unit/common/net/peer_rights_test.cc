#include "common/net/peer_rights.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "proto/admin.pb.h"
#include "proto/cluster.pb.h"
#include "proto/expert.pb.h"
#include "proto/inference.pb.h"
#include "proto/storage.pb.h"

namespace deltafin {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

std::vector<std::string> MethodsOf(const google::protobuf::Descriptor* any) {
  std::vector<std::string> methods;
  const google::protobuf::FileDescriptor* const file = any->file();
  for (int s = 0; s < file->service_count(); ++s) {
    const auto* const service = file->service(s);
    for (int m = 0; m < service->method_count(); ++m) {
      methods.push_back("/" + service->full_name() + "/" +
                        service->method(m)->name());
    }
  }
  return methods;
}

// A method that is added to a service has to be added here, or must be for all.
TEST(PeerRightsTest, WhatChangesTheClusterIsForAdministrators) {
  std::vector<std::string> for_administrators;
  int num_methods = 0;
  for (const google::protobuf::Descriptor* any :
       {v1::DrainRequest::descriptor(), v1::JoinRequest::descriptor(),
        v1::LayerRequest::descriptor(), v1::GenerateRequest::descriptor(),
        v1::StorageReport::descriptor()}) {
    for (const std::string& method : MethodsOf(any)) {
      ++num_methods;
      if (IsForAdministrators(method)) for_administrators.push_back(method);
    }
  }
  EXPECT_EQ(num_methods, 4 + 6 + 4 + 4 + 4);
  EXPECT_THAT(for_administrators,
              UnorderedElementsAre("/deltafin.v1.AdminService/Drain",
                                   "/deltafin.v1.StorageService/SetQuota",
                                   "/deltafin.v1.StorageService/RemoveExpert",
                                   "/deltafin.v1.StorageService/FetchExpert"));
}

TEST(PeerRightsTest, AnUnknownMethodOfTheirServicesIsForAdministrators) {
  EXPECT_TRUE(IsForAdministrators("/deltafin.v1.AdminService/"));
  EXPECT_TRUE(IsForAdministrators("/deltafin.v1.AdminService/GetHealth/"));
  EXPECT_TRUE(IsForAdministrators("/deltafin.v1.AdminService/gethealth"));
  EXPECT_TRUE(IsForAdministrators("/deltafin.v1.StorageService/Format"));
  EXPECT_FALSE(IsForAdministrators("/grpc.health.v1.Health/Check"));
}

TEST(PeerRightsTest, TheRefusalTellsWhoseCertificateAndWhatToDo) {
  const absl::Status refused =
      RequireAdministrator("/deltafin.v1.AdminService/Drain", "box-1");
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(
      std::string(refused.message()),
      AllOf(HasSubstr("/deltafin.v1.AdminService/Drain"), HasSubstr("'box-1'"),
            HasSubstr("certs issue AUTHORITY NAME --administrator")));
}

}  // namespace
}  // namespace deltafin
