"""A protoc plugin for the gRPC generator that only the protoc of grpcio-tools has built in."""

import pathlib
import sys
import tempfile

from google.protobuf.compiler import plugin_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from grpc_tools import protoc


def answer(request: plugin_pb2.CodeGeneratorRequest) -> plugin_pb2.CodeGeneratorResponse:
    response = plugin_pb2.CodeGeneratorResponse()
    response.supported_features = response.FEATURE_PROTO3_OPTIONAL
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        image, out = directory / "image.binpb", directory / "out"
        image.write_bytes(FileDescriptorSet(file=request.proto_file).SerializeToString())
        out.mkdir()
        arguments = ["protoc", f"--descriptor_set_in={image}", f"--grpc_python_out={out}"]
        if protoc.main(arguments + list(request.file_to_generate)) != 0:
            response.error = "grpc_tools.protoc failed: see above"
        for path in sorted(out.rglob("*.py")):
            response.file.add(name=path.relative_to(out).as_posix(), content=path.read_text())
    return response


if __name__ == "__main__":
    asked = plugin_pb2.CodeGeneratorRequest.FromString(sys.stdin.buffer.read())
    sys.stdout.buffer.write(answer(asked).SerializeToString())
