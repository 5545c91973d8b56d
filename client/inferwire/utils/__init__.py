"""What programs import from `openvino.utils`; only `data_helpers` and a decorator of it are here."""

from inferwire.utils import data_helpers as data_helpers
from inferwire.utils import decorators as decorators
