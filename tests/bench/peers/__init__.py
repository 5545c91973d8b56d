"""Servers that the same models run on, beside this one: in each folder what to install, and a program that serves.

The programs run in environments of their own, with `served` as the one module of this project they see.
"""
