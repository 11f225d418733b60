// Asks a model over gRPC and prints what it answers, as it comes.
//
//   protoc -I ROOT --cpp_out=OUT --grpc_out=OUT
//       --plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin proto/inference.proto
//   g++ -std=c++20 -I OUT docs/examples/chat.cc OUT/proto/*.cc -o chat
//       $(pkg-config --cflags --libs grpc++ protobuf)
//   ./chat HOST:PORT QUESTION...
//
// Each is one line; ROOT is deltafin's source folder. Every question goes on
// with the conversation of those before. Debian: libgrpc++-dev,
// protobuf-compiler-grpc.

#include <grpcpp/grpcpp.h>

#include <cstdio>
#include <string>

#include "proto/inference.grpc.pb.h"

namespace v1 = deltafin::v1;

// Prints the model's next message and adds it to the chat.
grpc::Status Answer(v1::InferenceService::Stub& service, v1::Chat& chat) {
  v1::GenerateRequest request;
  request.set_max_new_tokens(64);
  *request.mutable_chat() = chat;
  grpc::ClientContext context;
  const auto replies = service.Generate(&context, request);
  v1::GenerateReply reply;
  std::string text;
  while (replies->Read(&reply)) {
    std::fputs(reply.text_delta().c_str(), stdout);
    std::fflush(stdout);
    text += reply.text_delta();
  }
  const v1::Usage& usage = reply.usage();  // of the last reply
  std::printf("\n[%u tokens read, %u of them known, %u written]\n",
              usage.prompt_tokens(), usage.cached_prompt_tokens(),
              usage.completion_tokens());
  v1::ChatMessage* message = chat.add_messages();
  message->set_role("assistant");
  message->set_content(text);
  return replies->Finish();
}

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s HOST:PORT QUESTION...\n", argv[0]);
    return 64;
  }
  const auto service = v1::InferenceService::NewStub(
      grpc::CreateChannel(argv[1], grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  v1::Model model;
  grpc::Status status = service->GetModel(&context, {}, &model);
  if (status.ok()) std::printf("%s\n", model.name().c_str());
  v1::Chat chat;
  chat.set_thinking("off");
  for (int i = 2; i < argc && status.ok(); ++i) {
    v1::ChatMessage* question = chat.add_messages();
    question->set_role("user");
    question->set_content(argv[i]);
    status = Answer(*service, chat);
  }
  if (status.ok()) return 0;
  std::fprintf(stderr, "error %d: %s\n", status.error_code(),
               status.error_message().c_str());
  return 1;
}
