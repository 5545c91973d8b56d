"""What holds for every test: an interrupt interrupts, as in a terminal."""

import signal

# A shell that starts something in the background may have it ignore interrupts, and all that it starts would too.
signal.signal(signal.SIGINT, signal.default_int_handler)
