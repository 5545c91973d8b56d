"""`python -m inferwire PROGRAM ARGS...`: runs a program that was written for openvino."""

import sys

from inferwire.drop_in.command import main

main(sys.argv[1:], sys.orig_argv)
