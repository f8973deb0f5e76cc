"""A web server that is up as fast as an interpreter can be: whatever a hand-over takes besides is not its own.

python tiny_server.py PORT      answers everything with 200; SIGTERM ends it at once
"""

import signal
import socket
import sys

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nup"

signal.signal(signal.SIGTERM, signal.SIG_DFL)
with socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=64) as listening:
    while True:
        connection, _ = listening.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(ANSWER)
