#!/usr/bin/env python3
"""A worker that breaks the protocol, for test/t/245_worker_peers.pl. It is what vectorgpu.worker_program names, reads its
mode from the file fake_mode in the data directory, greets rightly unless the mode says otherwise, answers PING rightly so
that the supervisor counts on it, and answers searches as the mode says; other requests it refuses, or in the modes "deaf" and
"hangs_up" treats like that, but for those of the supervisor, to whom a sweep in vain would tell that it is silent. The mode
"right" breaks nothing: its searches find the nearest rows by the L2 distances in the file fake_rows, lines of
"[query]|(block,offset)|distance", so that what the other modes send is refused for what is wrong with it. What happens to it
goes to the file fake_notes, a word a line: the mode, "connected" for each client, "asked" for each request, then "searched"
for a SEARCH, "dropped" for a DROP; "left" when a client closes its connection."""
import fcntl
import mmap
import os
import re
import select
import socket
import struct
import sys

MAGIC = 0x4B574756
VERSION = None
AREA = 64 * 1024
HEADER = 4096
SUPERVISOR = 3
SEARCH, DROP, PING = 1, 10, 14
NOTED = {SEARCH: "searched", DROP: "dropped"}


def note(word, how="a"):
    with open("fake_notes", how) as file:
        file.write(word + "\n")


def read_rows():
    """For each query, as its bytes, all rows: (score, row id), ascending. The score is a float32, the distance its root."""
    found = {}
    with open("fake_rows") as file:
        for line in file:
            query, place, distance = line.split("|")
            block, offset = map(int, re.findall(r"\d+", place))
            score, = struct.unpack("<f", struct.pack("<f", float(distance) ** 2))
            elements = [float(element) for element in query.strip("[]").split(",")]
            found.setdefault(struct.pack(f"<{len(elements)}f", *elements), []).append((score, block << 16 | offset))
    return {query: sorted(rows) for query, rows in found.items()}


class Session:
    def __init__(self, connection, mode, role):
        self.connection = connection
        self.role = role
        self.memory = os.memfd_create("slot", 0 if mode == "unsealed" else os.MFD_ALLOW_SEALING)
        size = HEADER + 2 * AREA
        os.posix_fallocate(self.memory, 0, size)
        self.map = mmap.mmap(self.memory, size)
        if mode != "unsealed":
            fcntl.fcntl(self.memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        self.doorbell = os.eventfd(0, os.EFD_NONBLOCK)
        self.wakeup = os.eventfd(0, os.EFD_NONBLOCK)

    def close(self):
        """A k-NN graph opens dozens of sessions, and what they leave behind would use up the file descriptors."""
        self.connection.close()
        if self.map is not None:
            self.map.close()
        for file in (self.memory, self.doorbell, self.wakeup):
            os.close(file)

    def word(self, offset, kind="<I"):
        return struct.unpack_from(kind, self.map, offset)[0]

    def reply(self, status, body=b"", n_items=0, more=0, sequence=None, length=None, header=None):
        if sequence is None:
            sequence = self.word(8, "<Q")
        head = header or struct.pack("<IIQIIQIIQQQ", status, len(body), sequence, n_items, more, 1, 1, 0, 0, 0, 0)
        data = head + body
        self.map[HEADER + AREA:HEADER + AREA + len(data)] = data
        struct.pack_into("<Q", self.map, 72, sequence)
        struct.pack_into("<I", self.map, 80, len(data) if length is None else length)
        struct.pack_into("<I", self.map, 0, 3)
        os.eventfd_write(self.wakeup, 1)

    def nearest(self):
        """The rows that a SEARCH asks for: k of them, behind the last one where there is one."""
        k, after_score, after_row, has_after, dim = struct.unpack_from("<QdQII", self.map, HEADER + 64 + 24)
        end = HEADER + self.word(24)
        return [item for item in read_rows()[self.map[end - 4 * dim:end]] if not has_after or item > (after_score, after_row)][:k]

    def answer(self, mode):
        if self.map is None:
            return
        if mode == "late" and self.word(0) == 2 and self.word(16, "<Q") == self.word(8, "<Q"):
            self.reply(0, sequence=self.word(8, "<Q") + 1)
        if mode == "late_close" and self.word(0) == 2 and self.word(16, "<Q") == self.word(8, "<Q"):
            self.connection.close()
            return
        if self.word(0) != 1:
            return
        note("asked")
        kind = self.word(HEADER)
        if kind in NOTED:
            note(NOTED[kind])
        k = self.word(HEADER + 64 + 24, "<Q")
        rows = lambda *pairs: b"".join(struct.pack("<dQ", score, row) for score, row in pairs)
        struct.pack_into("<I", self.map, 0, 2)
        if mode == "unsealed":
            # A client that waits for an answer reads the memory, which is gone then, also for this process.
            self.map.close()
            self.map = None
            os.ftruncate(self.memory, 0)
        elif kind == PING:
            self.reply(0)
        elif self.role == SUPERVISOR:
            self.reply(9)
        elif mode == "deaf":
            pass
        elif mode == "hangs_up":
            self.connection.close()
        elif kind != SEARCH:
            self.reply(9)
        elif mode == "right":
            found = self.nearest()
            self.reply(0, rows(*found), n_items=len(found))
        elif mode == "garbage":
            self.reply(0, header=os.urandom(64))
        elif mode == "too_long":
            self.reply(0, length=0xFFFFFFF0)
        elif mode == "count_lies":
            self.reply(0, rows((0.0, 1 << 16 | 1)), n_items=0x10000001)
        elif mode == "too_many":
            self.reply(0, rows(*((float(i), 1 + i) for i in range(k + 1))), n_items=k + 1)
        elif mode == "order":
            self.reply(0, rows((2.0, 2), (1.0, 1)), n_items=2)
        elif mode == "twice":
            self.reply(0, rows((1.0, 1), (1.0, 1)), n_items=2)
        elif mode == "no_such_block":
            self.reply(0, rows((0.0, 0x0FFFFFFF << 16 | 1)), n_items=1)
        elif mode == "bad_offset":
            self.reply(0, rows((0.0, 0)), n_items=1)
        elif mode == "other_sequence":
            self.reply(0, rows((0.0, 1)), n_items=1, sequence=self.word(8, "<Q") + 1)
        elif mode == "state":
            struct.pack_into("<I", self.map, 0, 77)
            os.eventfd_write(self.wakeup, 1)
        elif mode == "more_forever":
            self.reply(0, b"", n_items=0, more=1)
        elif mode == "status":
            self.reply(4711)
        elif mode == "close":
            self.connection.close()
        # "silent": nothing; "late", "late_close": nothing before the client has given up


def greet(connection, mode, epoch):
    hello = connection.recv(4096)
    session = Session(connection, mode, int.from_bytes(hello[6:8], "little"))
    version = 99 if mode == "version" else VERSION
    area = 16 if mode == "small_area" else 0xFFFFFF00 if mode == "large_area" else AREA
    welcome = struct.pack("<IHHQQIIII24x", MAGIC, version, 0, epoch + (mode == "epoch"), 1, area, area, os.getpid(), 1)
    fds = [session.memory, session.doorbell, session.wakeup]
    if mode == "no_fds":
        fds = fds[:1]
    if mode == "short_memory":
        fds[0] = os.memfd_create("short", os.MFD_ALLOW_SEALING)
        fcntl.fcntl(fds[0], fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    socket.send_fds(connection, [welcome[:10] if mode == "half_welcome" else welcome], fds)
    return session


def main():
    options = dict(zip(sys.argv[1::2], sys.argv[2::2]))
    os.chdir(options["--data-directory"])
    epoch = int(options["--epoch"], 16)
    with open("fake_mode") as file:
        mode = file.read().strip()
    note(mode, "w")
    path = f"pgsql_tmp_vectorgpu/pgsql_tmp_w.{epoch:016x}"
    if os.path.exists(path):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    listener.listen(64)
    parent = int(options["--parent-fd"])
    sessions = {}
    unheard = []  # whose HELLO stays where it is
    while True:
        ready, _, _ = select.select([listener, parent, *sessions], [], [], 0.05)
        if parent in ready:
            return
        for item in ready:
            if item is listener:
                connection, _ = listener.accept()
                note("connected")
                if mode == "mute":
                    unheard.append(connection)
                    continue
                try:
                    sessions[connection] = greet(connection, mode, epoch)
                except OSError:
                    connection.close()
            elif item in sessions:
                note("left")
                sessions.pop(item).close()
        for connection, session in list(sessions.items()):
            session.answer(mode)
            if connection.fileno() < 0:
                sessions.pop(connection).close()


main()
