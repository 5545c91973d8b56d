"""Detects things in photos with ultralytics, in two sizes and together: argv is the model, then photos."""

import sys

from ultralytics import YOLO

SIDE = 320
MOST = 5

model, *photos = sys.argv[1:]
detector = YOLO(model, task="detect")


def show(results):
    for result in results:
        print([(int(box.cls), round(float(box.conf), 2), box.xyxy[0].round().int().tolist()) for box in result.boxes])


for side in (SIDE, 2 * SIDE):
    for photo in photos:
        show(detector.predict(photo, imgsz=side, max_det=MOST, verbose=False))
show(detector.predict(photos * 2, imgsz=SIDE, batch=len(photos), max_det=MOST, verbose=False, stream=True))
