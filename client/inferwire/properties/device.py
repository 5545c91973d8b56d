"""What a device is and which devices are wanted. Mirrors `openvino.properties.device`."""

from inferwire.properties.declaration import Property, device_names, device_properties, text
from inferwire.tab_completion import offered
from inferwire.values.enumerations import OrderedChoice


class Type(OrderedChoice):
    """Whether a device shares the processor's package. Mirrors openvino's enumeration of this name."""

    INTEGRATED = 0
    DISCRETE = 1


class Capability:
    """What a device can do, as strings. Mirrors `openvino.properties.device.Capability`."""

    BF16 = "BF16"
    BIN = "BIN"
    EXPORT_IMPORT = "EXPORT_IMPORT"
    FP16 = "FP16"
    FP32 = "FP32"
    INT16 = "INT16"
    INT8 = "INT8"
    WINOGRAD = "WINOGRAD"


architecture = Property("DEVICE_ARCHITECTURE")
capabilities = Property("OPTIMIZATION_CAPABILITIES")
full_name = Property("FULL_DEVICE_NAME")
gops = Property("DEVICE_GOPS")
id = Property("DEVICE_ID", text)  # noqa: A001 - as openvino names it
luid = Property("DEVICE_LUID")
pci_info = Property("DEVICE_PCI_INFO")
priorities = Property("MULTI_DEVICE_PRIORITIES", device_names)
properties = Property("DEVICE_PROPERTIES", device_properties)
thermal = Property("DEVICE_THERMAL")
type = Property("DEVICE_TYPE")  # noqa: A001 - as openvino names it
uuid = Property("DEVICE_UUID")

__dir__ = offered(globals())
