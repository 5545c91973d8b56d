"""Asks a server for the digits with KServe's SDK, over HTTP and gRPC: argv is HTTP address, gRPC address, pixels."""

import asyncio
import json
import sys

import numpy as np
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest, RESTConfig

HTTP, GRPC, PIXELS = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])


def request() -> InferRequest:
    pixels = InferInput("pixels", [len(PIXELS), 64], "FP32")
    pixels.set_data_from_numpy(np.array(PIXELS, np.float32), binary_data=False)
    return InferRequest(model_name="digits_mlp", infer_inputs=[pixels])


async def over_http() -> list:
    async with InferenceRESTClient(RESTConfig(protocol="v2")) as client:
        url = f"http://{HTTP}"
        assert await client.is_server_ready(url)
        assert await client.is_server_live(url)
        assert await client.is_model_ready(url, "digits_mlp")
        answer = await client.infer(url, request(), model_name="digits_mlp")
        return answer.outputs[0].as_numpy().tolist()


async def over_grpc() -> list:
    async with InferenceGRPCClient(GRPC) as client:
        assert await client.is_server_ready()
        assert await client.is_server_live()
        assert await client.is_model_ready("digits_mlp")
        answer = await client.infer(request())
        return answer.outputs[0].as_numpy().tolist()


async def main() -> None:
    print(json.dumps({"HTTP": await over_http(), "gRPC": await over_grpc()}))


asyncio.run(main())
