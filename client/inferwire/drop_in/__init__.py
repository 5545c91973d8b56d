"""Running programs that were written for openvino without changing them.

`command` starts Python anew with the program, and `site` has the code that this Python runs first. `finder` then gives
the program the mirror's modules under openvino's names, `top_level` as openvino itself, and `stand_ins` for modules
that have no mirror but that programs import all the same.
"""
