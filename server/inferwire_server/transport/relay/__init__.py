"""What the workers of one server ask of each other: calls that are not the business of the one they arrive at alone.

To one of a server's workers the others are its *colleagues*; what a crew and a lead are is told in
`inferwire_server.crew`.
"""
