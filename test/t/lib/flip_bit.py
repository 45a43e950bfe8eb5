#!/usr/bin/env python3
"""Flips a bit of another process's memory, as a broken memory chip does. usage: flip_bit.py PID PATTERN OFFSET [NTH]

PATTERN is what the memory is known to have there, in hexadecimal, `..` for a byte that is not known. In each place that has it, or in the NTH alone (from
0), the lowest bit of the byte OFFSET bytes behind its beginning becomes another. Prints how many places there were; or "denied: " and why
where the system does not let one process look into the other. Memory that several processes share is left alone."""
import os
import re
import sys

PAGE = os.sysconf("SC_PAGE_SIZE")
STEP = 16 << 20
SHADOW = 1 << 36  # areas as large as this belong to AddressSanitizer: terabytes, whose used part alone takes hours to read
IN_USE = re.compile(b"[\x40-\xff]+")  # last bytes of entries of /proc/PID/pagemap: the page is in memory, or swapped out


def ranges_in_use(pages, start, end):
    """The parts of [start, end) that were ever written: most of what a process has mapped was not."""
    entries = os.pread(pages, (end - start) // PAGE * 8, start // PAGE * 8)
    for found in IN_USE.finditer(entries[7::8]):
        yield start + found.start() * PAGE, start + found.end() * PAGE


def places(memory, start, end, pattern, length):
    for at in range(start, end, STEP):
        data = os.pread(memory, min(STEP + length - 1, end - at), at)
        for found in pattern.finditer(data):
            if found.start() < STEP:
                yield at + found.start()


def main():
    pid, text, offset = sys.argv[1], sys.argv[2], int(sys.argv[3])
    bytes_of = [text[i:i + 2] for i in range(0, len(text), 2)]
    pattern = re.compile(b"".join(b"." if byte == ".." else re.escape(bytes.fromhex(byte)) for byte in bytes_of), re.DOTALL)
    try:
        memory = os.open(f"/proc/{pid}/mem", os.O_RDWR)
        pages = os.open(f"/proc/{pid}/pagemap", os.O_RDONLY)
        with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
            areas = [line.split()[:2] for line in maps]
    except PermissionError as error:
        print("denied:", error)
        return
    found = []
    for area, rights in areas:
        start, end = (int(address, 16) for address in area.split("-"))
        if rights == "rw-p" and end - start < SHADOW:
            for first, last in ranges_in_use(pages, start, end):
                found += places(memory, first, last, pattern, len(bytes_of))
    for place in found if len(sys.argv) < 5 else found[int(sys.argv[4]) :][:1]:
        byte = os.pread(memory, 1, place + offset)[0]
        os.pwrite(memory, bytes([byte ^ 1]), place + offset)
    print(len(found))


main()
