"""`python -IS fork_client.py SOCKET PROGRAM ARGUMENTS…` is a Python that is there at once: the
server at the socket runs the program (`fork_server.py`)."""

import json
import os
import socket
import sys
from pathlib import Path

asked = {"arguments": sys.argv[2:], "environment": dict(os.environ), "folder": str(Path.cwd())}
with socket.socket(socket.AF_UNIX) as server:
    server.connect(sys.argv[1])
    socket.send_fds(server, [b"."], [0, 1, 2])
    server.sendall(json.dumps(asked).encode() + b"\n")
    server.recv(1)  # until the program has ended
