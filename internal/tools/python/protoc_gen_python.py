"""A protoc plugin for Python, with the gRPC generator that only the protoc of grpcio-tools has built in.

What it generates works with libraries that are older than the generators, which put a check of versions into each file.
The check is taken out; pyproject.toml says what the code was tried with.
"""

import pathlib
import re
import sys
import tempfile

from google.protobuf.compiler import plugin_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from grpc_tools import protoc

CHECKS = (
    r"from google\.protobuf import runtime_version as _runtime_version\n",
    r"_runtime_version\.ValidateProtobufRuntimeVersion\(\n(?:    .*\n)*\)\n",
    r"import warnings\n",
    r"\nGRPC_GENERATED_VERSION = (?:.*\n)*?    \)\n",
)


def unchecked(text: str) -> str:
    for check in CHECKS:
        text = re.sub(check, "", text)
    return text


def answer(request: plugin_pb2.CodeGeneratorRequest) -> plugin_pb2.CodeGeneratorResponse:
    response = plugin_pb2.CodeGeneratorResponse()
    response.supported_features = response.FEATURE_PROTO3_OPTIONAL
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        image, out = directory / "image.binpb", directory / "out"
        image.write_bytes(FileDescriptorSet(file=request.proto_file).SerializeToString())
        out.mkdir()
        arguments = ["protoc", f"--descriptor_set_in={image}", f"--python_out={out}", f"--grpc_python_out={out}"]
        if protoc.main(arguments + list(request.file_to_generate)) != 0:
            response.error = "grpc_tools.protoc failed: see above"
        for path in sorted(out.rglob("*.py")):
            response.file.add(name=path.relative_to(out).as_posix(), content=unchecked(path.read_text()))
    return response


if __name__ == "__main__":
    asked = plugin_pb2.CodeGeneratorRequest.FromString(sys.stdin.buffer.read())
    sys.stdout.buffer.write(answer(asked).SerializeToString())
