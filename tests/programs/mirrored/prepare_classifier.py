"""Has Intel's model_api build its preprocessing into a model, with openvino: argv is the model, then where to."""

import sys

from model_api.models import ClassificationModel

CONFIGURATION = {
    "resize_type": "standard",
    "reverse_input_channels": True,
    "mean_values": [127.0] * 3,
    "scale_values": [128.0] * 3,
    "topk": 3,
    "confidence_threshold": 0.0,
    "output_raw_scores": True,
    "labels": [str(number) for number in range(1000)],
}

model = ClassificationModel.create_model(
    sys.argv[1], model_type="Classification", device="CPU", configuration=CONFIGURATION
)
model.save(sys.argv[2])
