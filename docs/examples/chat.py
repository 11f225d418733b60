#!/usr/bin/python3
"""Asks a model over gRPC and prints what it answers, as it comes.

    protoc -I ROOT --python_out=OUT --grpc_out=OUT \\
        --plugin=protoc-gen-grpc=/usr/bin/grpc_python_plugin proto/inference.proto
    PYTHONPATH=OUT docs/examples/chat.py HOST:PORT QUESTION...

Every question goes on with the conversation of those before. ROOT is deltafin's
source folder. Debian: python3-grpcio, protobuf-compiler-grpc.
"""
import sys

import grpc

from proto import inference_pb2, inference_pb2_grpc


def answer(service, messages):
    """Prints the model's next message and returns it."""
    request = inference_pb2.GenerateRequest(max_new_tokens=64)
    request.chat.thinking = "off"
    request.chat.messages.extend(messages)
    text = ""
    for reply in service.Generate(request, timeout=600):
        print(reply.text_delta, end="", flush=True)
        text += reply.text_delta
        usage = reply.usage  # of the last reply
    print(f"\n[{usage.prompt_tokens} tokens read, {usage.cached_prompt_tokens} of them known, "
          f"{usage.completion_tokens} written]")
    return inference_pb2.ChatMessage(role="assistant", content=text)


def main(address, questions):
    messages = []
    with grpc.insecure_channel(address) as channel:
        service = inference_pb2_grpc.InferenceServiceStub(channel)
        print(service.GetModel(inference_pb2.GetModelRequest()).name)
        for question in questions:
            messages.append(inference_pb2.ChatMessage(role="user", content=question))
            try:
                messages.append(answer(service, messages))
            except grpc.RpcError as error:
                sys.exit(f"{error.code().name}: {error.details()}")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2:])
