"""Asks a server for the digits with pytriton's clients: argv is HTTP address, gRPC address, pixels."""

import asyncio
import json
import sys

import numpy as np
from pytriton.client import AsyncioModelClient, FuturesModelClient, ModelClient

HTTP, GRPC, PIXELS = sys.argv[1], sys.argv[2], np.array(json.loads(sys.argv[3]), np.float32)


def ask(url: str) -> list:
    with ModelClient(url, "digits_mlp") as client:
        sample = client.infer_sample(PIXELS) if not client.is_batching_supported else client.infer_batch(PIXELS)
        return sample["probabilities"].tolist()


def ask_in_threads(url: str) -> list:
    with FuturesModelClient(url, "digits_mlp", max_workers=2) as client:
        return client.infer_sample(PIXELS).result()["probabilities"].tolist()


async def ask_async(url: str) -> list:
    async with AsyncioModelClient(url, "digits_mlp") as client:
        return (await client.infer_sample(PIXELS))["probabilities"].tolist()


answers = {}
for url in (f"http://{HTTP}", f"grpc://{GRPC}"):
    answers[f"ModelClient {url[:4]}"] = ask(url)
    answers[f"FuturesModelClient {url[:4]}"] = ask_in_threads(url)
    answers[f"AsyncioModelClient {url[:4]}"] = asyncio.run(ask_async(url))
print(json.dumps(answers))
