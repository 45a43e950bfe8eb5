#!/usr/bin/env python3
"""Greets a worker like a client of its server, as the calling user. usage: knock.py FOLDER VERSION; prints one word:
denied (by the folder or the socket), refused (the worker hung up), greeted."""
import glob
import os
import socket
import struct
import sys

folder, version = sys.argv[1], int(sys.argv[2])
try:
    # By a short path: an address holds 107 bytes.
    os.chdir(folder)
    names = glob.glob("pgsql_tmp_w.*")
    if len(names) != 1:
        sys.exit(f"sockets in {folder}: {names}")
    epoch = int(names[0][len("pgsql_tmp_w."):], 16)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(30)
    connection.connect(names[0])
except PermissionError:
    print("denied")
    sys.exit()
try:
    connection.send(struct.pack("<IHHIIIIQ", 0x4B574756, version, 1, epoch & 0xFFFFFFFF, epoch >> 32, os.getpid(), 0, 0))
    answer = connection.recv(65536)
except (BrokenPipeError, ConnectionResetError):
    answer = b""
print("greeted" if answer else "refused")
