"""The processes of a server that has more than one: their cores, their start, their end.

`processes` says how many there are, and on which cores; the lead starts the others as its `followers`, makes the
`socket_folder` in which all call each other, and ends those that hang (`hang_detection`). `role` is what a process
heeds besides signals, and `__main__` is a follower's.
"""
