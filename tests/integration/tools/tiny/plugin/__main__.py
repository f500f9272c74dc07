"""A provider as small as one can be: it shouts the text of a Thing. Creating the text `slow` takes 30 s."""

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
from google.protobuf import empty_pb2
from google.protobuf.struct_pb2 import Struct
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc


class Tiny(provider_pb2_grpc.ResourceProviderServicer):
    """One kind, Thing."""

    def GetPluginInfo(self, request: empty_pb2.Empty, context: grpc.ServicerContext) -> plugin_pb2.PluginInfo:
        return plugin_pb2.PluginInfo(version="1.0.0")

    def CheckConfig(
        self, request: provider_pb2.CheckRequest, context: grpc.ServicerContext
    ) -> provider_pb2.CheckResponse:
        return provider_pb2.CheckResponse(inputs=request.news)

    def DiffConfig(self, request: provider_pb2.DiffRequest, context: grpc.ServicerContext) -> provider_pb2.DiffResponse:
        return provider_pb2.DiffResponse()

    def Configure(
        self, request: provider_pb2.ConfigureRequest, context: grpc.ServicerContext
    ) -> provider_pb2.ConfigureResponse:
        return provider_pb2.ConfigureResponse(acceptSecrets=True, supportsPreview=True)

    def Check(self, request: provider_pb2.CheckRequest, context: grpc.ServicerContext) -> provider_pb2.CheckResponse:
        return provider_pb2.CheckResponse(inputs=request.news)

    def Diff(self, request: provider_pb2.DiffRequest, context: grpc.ServicerContext) -> provider_pb2.DiffResponse:
        changed = request.olds["text"] != request.news["text"]
        kinds = provider_pb2.DiffResponse
        return provider_pb2.DiffResponse(changes=kinds.DIFF_SOME if changed else kinds.DIFF_NONE)

    def Create(self, request: provider_pb2.CreateRequest, context: grpc.ServicerContext) -> provider_pb2.CreateResponse:
        if request.properties["text"] == "slow" and not request.preview:
            time.sleep(30)
        return provider_pb2.CreateResponse(id="id-1", properties=shouting(request.properties))

    def Update(self, request: provider_pb2.UpdateRequest, context: grpc.ServicerContext) -> provider_pb2.UpdateResponse:
        return provider_pb2.UpdateResponse(properties=shouting(request.news))

    def Read(self, request: provider_pb2.ReadRequest, context: grpc.ServicerContext) -> provider_pb2.ReadResponse:
        return provider_pb2.ReadResponse(id=request.id, properties=request.properties, inputs=request.inputs)

    def Delete(self, request: provider_pb2.DeleteRequest, context: grpc.ServicerContext) -> empty_pb2.Empty:
        return empty_pb2.Empty()

    def Cancel(self, request: empty_pb2.Empty, context: grpc.ServicerContext) -> empty_pb2.Empty:
        return empty_pb2.Empty()


def shouting(properties: Struct) -> Struct:
    outputs = Struct()
    outputs.CopyFrom(properties)
    outputs["shout"] = str(properties["text"]).upper()
    return outputs


if os.environ.get("TINY_PLUGIN") == "broken":
    print("the plugin's own reason", file=sys.stderr)
    sys.exit(9)
server = grpc.server(ThreadPoolExecutor())
provider_pb2_grpc.add_ResourceProviderServicer_to_server(Tiny(), server)
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
server.wait_for_termination()
