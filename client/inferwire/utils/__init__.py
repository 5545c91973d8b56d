"""What programs import from `openvino.utils`; of it, `data_helpers` is here."""

from inferwire.utils import data_helpers as data_helpers
