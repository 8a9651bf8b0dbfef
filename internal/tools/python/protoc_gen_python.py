"""A protoc plugin for Python: messages, stubs and their types, in the package easel_grpc.

The gRPC generator is built into the protoc of grpcio-tools. Each generator names modules after the .proto files, easel.v1, and
the import name easel belongs to another project.
"""

import pathlib
import re
import sys
import tempfile

from google.protobuf.compiler import plugin_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from grpc_tools import protoc

# Module names, but not names of the contract such as /easel.v1.AccountService.
MODULE = re.compile(r"(?<=from )easel\.v1(?= import )|(?<=')easel(?=\.v1\.\w+_pb2')")


def answer(request: plugin_pb2.CodeGeneratorRequest) -> plugin_pb2.CodeGeneratorResponse:
    response = plugin_pb2.CodeGeneratorResponse()
    response.supported_features = response.FEATURE_PROTO3_OPTIONAL
    plugins = [f"--plugin={pathlib.Path(sys.executable).with_name(name)}" for name in ("protoc-gen-mypy", "protoc-gen-mypy_grpc")]
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        image, out = directory / "image.binpb", directory / "out"
        image.write_bytes(FileDescriptorSet(file=request.proto_file).SerializeToString())
        out.mkdir()
        kinds = [f"--python_out={out}", f"--grpc_python_out={out}", f"--mypy_out=quiet:{out}", f"--mypy_grpc_out=quiet:{out}"]
        if protoc.main(["protoc", f"--descriptor_set_in={image}", *plugins, *kinds, *request.file_to_generate]) != 0:
            response.error = "grpc_tools.protoc failed: see above"
        for path in sorted(out.rglob("*.py*")):
            text = MODULE.sub(lambda found: "easel_grpc" + found.group().removeprefix("easel"), path.read_text())
            response.file.add(name=path.relative_to(out / "easel").as_posix(), content=text)
    return response


if __name__ == "__main__":
    asked = plugin_pb2.CodeGeneratorRequest.FromString(sys.stdin.buffer.read())
    sys.stdout.buffer.write(answer(asked).SerializeToString())
