"""The container: a zip archive of uncompressed members, each beginning at a multiple of 64 bytes.

The alignment lets a reader map the file into memory and use the numbers where they lie. Python's `zipfile` is not
used: the reader needs the position of each member's data and errors that name a byte; the writer needs the padding.
A member is never decompressed, and members may not overlap, so that reading takes no more memory than the file's size.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ._errors import CheckpointError, EmptyFileError

ALIGNMENT = 64
LOCAL, CENTRAL, END, END64, LOCATOR64 = b"PK\3\4", b"PK\1\2", b"PK\5\6", b"PK\6\6", b"PK\6\7"
_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR64 = struct.Struct("<4sLQL")
_UTF8, _ENCRYPTED = 0x800, 1
_MAX32, _MAX16 = 0xFFFFFFFF, 0xFFFF
_DATE = 0x21                            # 1 January 1980: files do not depend on when they were written

Reader = Callable[[int, int], Any]      # (position, number of bytes) -> at most so many bytes


class Member(NamedTuple):
    """One file of the archive; `start` is the position of its first byte."""

    name: str
    start: int
    size: int
    crc: int


class Archive:
    """The members of an archive, by name without the folder that they all lie in.

    Where several archives follow each other, this is the first; `end` is where it ends.

    Args:
        read: gives bytes at a position.
        size: the file's size.
        what: how messages call the file.

    Raises:
        CheckpointError: not a zip archive, truncated, compressed, or damaged.
    """

    def __init__(self, read: Reader, size: int, what: str) -> None:
        self._read = read
        self.size = size
        self.what = what
        self.members: dict[str, Member] = {}
        position, n, end_of_members = self._directory()
        table = self._exactly(position, end_of_members - position, "the list of its members")
        entries = list(self._entries(table, n))
        folders = {name.partition("/")[0] for name, *_ in entries if "/" in name}
        if len(folders) != 1:
            raise CheckpointError(f"{what} is a zip archive, but no saved checkpoint: its members do not "
                                  f"lie in one folder. It has {n} members: "
                                  f"{', '.join(name for name, *_ in entries[:5])}.")
        self.folder = folders.pop()
        self._place(entries, position)

    # ------------------------------------------------------------------------------- the list of members

    def _exactly(self, position: int, n: int, part: str) -> bytes:
        if position < 0 or n < 0 or position + n > self.size:
            raise CheckpointError(f"{self.what} is damaged: {part} should be at bytes {position} to "
                                  f"{position + n}, and the file has {self.size} bytes. Copy or download it "
                                  "again.")
        data = bytes(self._read(position, n))
        if len(data) != n:
            raise CheckpointError(f"{self.what} is truncated at byte {position + len(data)}: {part} ends at "
                                  f"{position + n}.")
        return data

    def _directory(self) -> tuple[int, int, int]:
        """Position and number of the directory's entries, and where it ends."""
        if self.size == 0:
            raise EmptyFileError(f"{self.what} is empty (0 bytes): Ran out of input. Was the program that "
                                 "wrote it stopped?")
        tail_size = min(self.size, _END.size + _MAX16)
        tail = self._exactly(self.size - tail_size, tail_size, "the end")
        at = tail.rfind(END)
        while at >= 0 and len(tail) - at < _END.size:
            at = tail.rfind(END, 0, at)
        if at < 0:
            raise CheckpointError(
                f"{self.what} is a zip archive that is truncated at byte {self.size}: it failed finding "
                "central directory, the list of members that ends every zip archive. It was not written or "
                "copied to its end. Save, copy or download it again.")
        found = self._end(self.size - tail_size + at)
        if found[3]:            # bytes lie before this archive: others, saved into the same stream
            found = self._first_end(self.size - tail_size + at) or found
        position, n, before, self._shift = found
        return position, n, before

    def _end(self, end: int) -> tuple[int, int, int, int]:
        """What the end record at a position says: where the list begins, its entries, where it ends, and "
          "how many bytes
        lie before the archive, which members' positions do not count."""
        _, disk, disk2, _, n, length, offset, n_comment = _END.unpack(self._exactly(end, _END.size, "the end"))
        if disk not in (0, _MAX16) or disk2 not in (0, _MAX16):
            raise CheckpointError(f"{self.what} is damaged: its end says that it is one volume of several.")
        before = end
        self.end = end + _END.size + n_comment
        if end >= _LOCATOR64.size + _END64.size:
            record_at = end - _LOCATOR64.size - _END64.size
            tail = self._exactly(record_at, _END64.size + _LOCATOR64.size, "the end")
            if tail[_END64.size:_END64.size + 4] == LOCATOR64:
                if tail[:4] != END64:
                    raise CheckpointError(f"{self.what} is damaged at byte {record_at}: no end record of a "
                                          "zip archive.")
                *_, n, length, offset = _END64.unpack(tail[:_END64.size])
                before = record_at
        position = before - length
        if position < 0 or offset > position or n * _CENTRAL.size > length:
            raise CheckpointError(f"{self.what} is damaged: its end (byte {end}) speaks of {n} members and "
                                  f"a list of {length} bytes at byte {offset}, which does not fit in the "
                                  "file.")
        return position, n, before, position - offset

    def _first_end(self, last: int) -> tuple[int, int, int, int] | None:
        """The end of the archive with which the file begins, found by its own record of where its list "
          "begins."""
        chunk, at = 1 << 20, 0
        while at < last:
            data = self._exactly(at, min(chunk + _END.size, last - at), "an archive")
            i = data.find(END)
            while i >= 0:
                try:
                    found = self._end(at + i)
                except CheckpointError:
                    found = None        # numbers that look like an end
                if found is not None and found[3] == 0:
                    return found
                i = data.find(END, i + 1)
            at += chunk
        self._end(last)
        return None

    def _entries(self, table: bytes, n: int) -> Iterable[tuple[str, int, int, int]]:
        at = 0
        for i in range(n):
            if len(table) - at < _CENTRAL.size or table[at:at + 4] != CENTRAL:
                raise CheckpointError(f"{self.what} is damaged: entry {i} of {n} in the list of members is "
                                      "not one.")
            (_, _, _, flags, method, _, _, crc, packed, size, n_name, n_extra, n_comment, _, _, _,
             offset) = _CENTRAL.unpack_from(table, at)
            at += _CENTRAL.size
            raw = table[at:at + n_name]
            extra = table[at + n_name:at + n_name + n_extra]
            at += n_name + n_extra + n_comment
            try:
                name = raw.decode()
            except UnicodeDecodeError:
                name = ""
            if at > len(table) or not name:
                raise CheckpointError(f"{self.what} is damaged: entry {i} of {n} in the list of members has "
                                      "no readable name.")
            if flags & _ENCRYPTED:
                raise CheckpointError(f"{self.what} is damaged or not a checkpoint: its member {name!r} is "
                                      "encrypted.")
            size, packed, offset = self._wide(extra, size, packed, offset)
            if method or packed != size:
                raise CheckpointError(
                    f"{self.what}: member {name!r} is compressed (zip method {method}), and those of saved "
                    "files never are. If the archive was unpacked and packed again, pack it without "
                    "compression (zip -0 -r).")
            if not name.endswith("/"):
                yield name, size, crc, offset + self._shift

    @staticmethod
    def _wide(extra: bytes, size: int, packed: int, offset: int) -> tuple[int, int, int]:
        """Sizes beyond 32 bits stand in an extra field, in this order and only where needed."""
        at = 0
        while at + 4 <= len(extra):
            kind, length = struct.unpack_from("<2H", extra, at)
            field = extra[at + 4:at + 4 + length]
            if kind == 1:
                wide = iter(struct.unpack_from(f"<{len(field) // 8}Q", field))
                size = next(wide, size) if size == _MAX32 else size
                packed = next(wide, packed) if packed == _MAX32 else packed
                offset = next(wide, offset) if offset == _MAX32 else offset
            at += 4 + length
        return size, packed, offset

    def _place(self, entries: list[tuple[str, int, int, int]], limit: int) -> None:
        """Find where each member's data begin: behind a header of its own, whose length only that header "
          "tells."""
        reached, previous = 0, "the beginning"
        for name, size, crc, offset in sorted(entries, key=lambda e: e[3]):
            header = self._exactly(offset, _LOCAL.size, f"the header of member {name!r}")
            if header[:4] != LOCAL:
                raise CheckpointError(f"{self.what} is damaged at byte {offset}: the header of member "
                                      f"{name!r} is not there.")
            n_name, n_extra = _LOCAL.unpack(header)[-2:]
            start = offset + _LOCAL.size + n_name + n_extra
            if self._exactly(offset + _LOCAL.size, n_name, f"the name of member {name!r}") != name.encode():
                raise CheckpointError(f"{self.what} is damaged at byte {offset}: another member's header is "
                                      f"where that of {name!r} should be.")
            if offset < reached or start + size > limit:
                raise CheckpointError(
                    f"{self.what} is damaged: member {name!r} should have {size} bytes at byte {start}, "
                    "where "
                    + (f"{previous} is." if offset < reached else "the file has not so many."))
            reached, previous = start + size, f"member {name!r}"
            inner = name.removeprefix(self.folder + "/")
            if inner in self.members:
                raise CheckpointError(f"{self.what} is damaged: it has two members {name!r}.")
            self.members[inner] = Member(name, start, size, crc)

    # ------------------------------------------------------------------------------- members

    def member(self, name: str) -> Member:
        """The place of a member.

        Raises:
            CheckpointError: there is none of that name.
        """
        found = self.members.get(name)
        if found is None:
            raise CheckpointError(
                f"{self.what} is incomplete: failed locating file {name} (file not found in archive folder "
                f"{self.folder!r}, which has {len(self.members)} members). It was saved or repacked wrongly.")
        return found

    def check(self, member: Member, data: Any) -> None:
        """Compare the checksum. 0 stands for none: PyTorch can be told to leave checksums out."""
        if member.crc and zlib.crc32(data) != member.crc:
            raise CheckpointError(
                f"{self.what} is damaged: CRC of {member.name!r} (bytes {member.start} to "
                f"{member.start + member.size}) is {zlib.crc32(data):08x}, and should be {member.crc:08x}. "
                "Copy or download it again.")

    def read(self, name: str) -> bytes:
        """A whole member, its checksum compared.

        Raises:
            CheckpointError: missing or damaged.
        """
        found = self.member(name)
        data = self._exactly(found.start, found.size, f"member {found.name!r}")
        self.check(found, data)
        return data


# ----------------------------------------------------------------------------------- writing


class ArchiveWriter:
    """Writes members one after the other to anything with a `write` method.

    Args:
        write: takes bytes.
        folder: the name before each member's.
    """

    def __init__(self, write: Callable[[Any], Any], folder: str) -> None:
        self._write = write
        self._folder = folder
        self._position = 0
        self._entries: list[tuple[bytes, int, int, int]] = []

    def _put(self, data: Any) -> None:
        self._write(data)
        self._position += len(data)

    def add(self, name: str, data: Any) -> None:
        """Append a member: bytes, or a flat view of bytes."""
        raw = f"{self._folder}/{name}".encode()
        size, crc, offset = len(data), zlib.crc32(data), self._position
        wide = b"" if size < _MAX32 else struct.pack("<2H2Q", 1, 16, size, size)
        fixed = offset + _LOCAL.size + len(raw) + len(wide) + 4         # "FB": the field whose bytes are padding
        padding = b"Z" * (-fixed % ALIGNMENT)
        extra = wide + struct.pack("<2sH", b"FB", len(padding)) + padding
        short = min(size, _MAX32)
        needed = 45 if wide else 20
        header = _LOCAL.pack(LOCAL, needed, _UTF8, 0, 0, _DATE, crc, short, short, len(raw), len(extra))
        self._put(header + raw + extra)
        self._put(data)
        self._entries.append((raw, size, crc, offset))

    def finish(self) -> None:
        """Append an identification that follows from the contents, and the list of members."""
        digest = hashlib.sha256(repr(self._entries).encode()).digest()
        halves = (int.from_bytes(digest[i:i + 8], "little") % 10**20 for i in (0, 8))
        self.add(".data/serialization_id", "".join(f"{half:020d}" for half in halves).encode())
        start = self._position
        for raw, size, crc, offset in self._entries:
            wide = [n for n in (size, size, offset) if n >= _MAX32]
            extra = struct.pack(f"<2H{len(wide)}Q", 1, 8 * len(wide), *wide) if wide else b""
            short = min(size, _MAX32)
            needed = 45 if wide else 20
            entry = _CENTRAL.pack(CENTRAL, needed, needed, _UTF8, 0, 0, _DATE, crc, short, short, len(raw), len(extra),
                                  0, 0, 0, 0, min(offset, _MAX32))
            self._put(entry + raw + extra)
        end, n = self._position, len(self._entries)
        length = end - start
        if n >= _MAX16 or end >= _MAX32:
            self._put(_END64.pack(END64, _END64.size - 12, 45, 45, 0, 0, n, n, length, start))
            self._put(_LOCATOR64.pack(LOCATOR64, 0, end, 1))
        self._put(_END.pack(END, 0, 0, min(n, _MAX16), min(n, _MAX16), min(length, _MAX32), min(start, _MAX32), 0))
