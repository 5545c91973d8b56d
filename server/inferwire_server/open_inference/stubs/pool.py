"""The descriptor pool of the Open Inference Protocol's messages.

Their names are everybody's: in protobuf's common pool they would collide with the copies that
tritonclient and KServe's SDK bring, as soon as one process imports both.
"""

from __future__ import annotations

from google.protobuf.descriptor_pool import DescriptorPool

POOL = DescriptorPool()
