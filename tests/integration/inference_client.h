// tests/integration/inference_client.h
//
// `deltafin serve` as a process, and a client of its InferenceService.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/inference.grpc.pb.h"
#include "tests/integration/deltafin_program.h"

namespace deltafin::testing {

// A server on a free port. Ends with the object.
class ServeProcess {
 public:
  // Waits until it listens. Fails the calling test otherwise.
  explicit ServeProcess(const Words& flags,
                        const std::string& listen = "127.0.0.1:0",
                        const ProcessOptions& options = {});

  Process& process() { return *process_; }
  const std::string& address() const { return address_; }
  // REQUIRES: it listens.
  v1::InferenceService::Stub& stub() { return *stub_; }

 private:
  std::unique_ptr<Process> process_;
  std::string address_;
  std::unique_ptr<v1::InferenceService::Stub> stub_;
};

struct Generated {
  std::vector<uint32_t> ids;
  std::string text;
  std::string reasoning;
  v1::GenerateReply last;
};

// The whole answer. Errors: the call's.
absl::StatusOr<Generated> Generate(ServeProcess& server,
                                   const v1::GenerateRequest& request);

v1::GenerateRequest IdsRequest(const std::vector<uint32_t>& ids,
                               uint32_t max_new_tokens);

}  // namespace deltafin::testing
