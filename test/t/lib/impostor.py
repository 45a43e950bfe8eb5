#!/usr/bin/env python3
"""Takes the place of a worker's socket, as a user who is not the server's, until one client has come. usage: impostor.py FOLDER; prints `ready`, and then
`silent` if the client hung up without a word, or what it said. The worker's own socket is back in its place at the end."""
import glob
import os
import socket
import sys

os.chdir(sys.argv[1])
names = glob.glob("pgsql_tmp_w.*")
if len(names) != 1:
    sys.exit(f"sockets: {names}")
name = names[0]
os.rename(name, "away")
try:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(name)
    os.chmod(name, 0o666)
    listener.listen(8)
    listener.settimeout(60)
    print("ready", flush=True)
    client, _ = listener.accept()
    client.settimeout(60)
    try:
        said = client.recv(65536)
    except ConnectionResetError:
        said = b""
    print(f"told {said.hex()}" if said else "silent")
finally:
    os.rename("away", name)
