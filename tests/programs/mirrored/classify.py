"""Classifies photos with Intel's model_api, one by one and several at once: argv is the model, then photos."""

import sys

import cv2
from model_api.models import ClassificationModel

model = ClassificationModel.create_model(sys.argv[1], device="CPU")
photos = [cv2.imread(path) for path in sys.argv[2:]]
for photo in photos:
    print([(int(label.id), round(float(label.confidence), 1)) for label in model(photo).top_labels])

found = {}
model.set_callback(lambda result, place: found.update({place: int(result.top_labels[0].id)}))
for place, photo in enumerate(photos * 4):
    model.infer_async(photo, place)
model.await_all()
print([found[place] for place in sorted(found)])
