"""What programs import from `openvino.utils`; of it, `data_helpers` and a decorator are here."""

from inferwire.utils import data_helpers as data_helpers
from inferwire.utils import decorators as decorators
