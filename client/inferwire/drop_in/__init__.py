"""Running programs that were written for openvino without changing them.

`command` starts Python anew with the program; `site` is what that Python runs first; `finder` then gives the
mirror's modules under openvino's names, `top_level` among them, and `stand_ins` for what has no mirror and is imported
all the same.
"""
