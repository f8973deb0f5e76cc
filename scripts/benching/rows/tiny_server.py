"""A web server that is up as fast as an interpreter can be: whatever a hand-over takes besides is not its own.

python tiny_server.py PORT FILE      answers everything with 200; SIGTERM ends it at once

FILE gets the milliseconds from the start of this process, which was a login shell first, until it listens.
"""

import os
import signal
import socket
import sys
import time
from pathlib import Path

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nup"

signal.signal(signal.SIGTERM, signal.SIG_DFL)
with socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=64) as listening:
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]) + 0.5  # rounded down: its middle
    own_s = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    Path(sys.argv[2]).write_text(str(own_s * 1000))
    while True:
        connection, _ = listening.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(ANSWER)
