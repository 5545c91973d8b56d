"""Has ultralytics export a detector for openvino: argv is the folder, then photos.

It is not trained: no package has its weights, so they are random. Its normalizations learn from the photos, so that
its outputs depend on its inputs.
"""

import sys
from pathlib import Path

import cv2
import torch
from ultralytics import YOLO

SIDE = 320

folder, *photos = sys.argv[1:]
torch.manual_seed(0)
detector = YOLO("yolo26n.yaml")
network = detector.model
for module in network.modules():
    if isinstance(module, torch.nn.BatchNorm2d):
        module.momentum = None
pixels = [torch.from_numpy(cv2.resize(cv2.imread(photo), (SIDE, SIDE))).permute(2, 0, 1) / 255 for photo in photos]
with torch.no_grad():
    network.train()(torch.stack(pixels))
    for scores in network.model[-1].one2one_cv3:
        scores[-1].weight.mul_(0.03)
        scores[-1].bias.zero_()
network.eval()
network.pt_path = str(Path(folder) / "detector.pt")
# A head that needs no suppression, which torchvision has: that does not load beside a torch of another build.
detector.export(format="openvino", imgsz=SIDE, dynamic=True, nms=False)
