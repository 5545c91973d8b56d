"""Asks a server for the digits as model_api asks OpenVINO Model Server: argv is HTTP address, gRPC address, pixels."""

import json
import sys

import numpy as np
from model_api.adapters import OVMSAdapter

adapter = OVMSAdapter(f"{sys.argv[1]}/v2/models/digits_mlp")
pixels = np.array(json.loads(sys.argv[3]), np.float32)
assert adapter.get_input_layers().keys() == {"pixels"}
assert adapter.get_output_layers().keys() == {"probabilities"}
answers = {"sync": adapter.infer_sync({"pixels": pixels})["probabilities"].tolist()}

landed = []
adapter.set_callback(lambda result, place: landed.append((place, result["probabilities"].tolist())))
for place in range(3):
    adapter.infer_async({"pixels": pixels}, place)
adapter.await_all()
assert sorted(place for place, _ in landed) == [0, 1, 2]
answers |= {f"async {place}": answer for place, answer in landed}
print(json.dumps(answers))
