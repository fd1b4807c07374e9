"""Damaging a file at random, in the ways that find faults of parsers. The scripts next to this file import it."""

import random
import struct
import zlib

_ODD_BYTES = (0, 1, 0x0A, 0x22, 0x27, 0x2C, 0x3C, 0x5B, 0x5C, 0x7B, 0x7F, 0x80, 0xFE, 0xFF)
_ODD_NUMBERS = (0, 1, 0x7F, 0xFF, 0x100, 0x7FFF, 0xFFFF, 0x10000, 2**24, 2**31 - 1, 2**31, 2**32 - 1)


def mutate(data: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """Damage a file in one to six ways; `others` are files of which it may get a piece."""
    damaged = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        rng.choice(_WAYS)(damaged, rng.choice(others), rng)
    return bytes(damaged)


def with_checksums(png: bytes) -> bytes:
    """Correct the checksums of a PNG's chunks, so that damage in them reaches the decoder."""
    fixed, at = bytearray(png), 8
    while at + 12 <= len(png):
        length = struct.unpack_from(">I", png, at)[0]
        end = at + 8 + length
        if end + 4 > len(png):
            break
        struct.pack_into(">I", fixed, end, zlib.crc32(png[at + 4 : end]))
        at = end + 4
    return bytes(fixed)


def _flip_a_bit(data: bytearray, other: bytes, rng: random.Random) -> None:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _put_an_odd_byte(data: bytearray, other: bytes, rng: random.Random) -> None:
    if data:
        data[_near_the_start(data, rng)] = rng.choice(_ODD_BYTES)


def _put_an_odd_number(data: bytearray, other: bytes, rng: random.Random) -> None:
    start, order, form = _near_the_start(data, rng), rng.choice("<>"), rng.choice("HI")
    number = rng.choice(_ODD_NUMBERS) & (0xFFFF if form == "H" else 0xFFFFFFFF)
    data[start : start + struct.calcsize(form)] = struct.pack(order + form, number)


def _cut_the_end(data: bytearray, other: bytes, rng: random.Random) -> None:
    del data[rng.randrange(len(data) + 1) :]


def _remove_a_piece(data: bytearray, other: bytes, rng: random.Random) -> None:
    start = rng.randrange(len(data) + 1)
    del data[start : start + rng.choice((1, 2, 7, 40))]


def _repeat_a_piece(data: bytearray, other: bytes, rng: random.Random) -> None:
    start = rng.randrange(len(data) + 1)
    data[start:start] = bytes(data[start : start + rng.choice((1, 4, 60))]) * rng.choice((1, 2, 50))


def _insert_noise(data: bytearray, other: bytes, rng: random.Random) -> None:
    start = rng.randrange(len(data) + 1)
    data[start:start] = rng.randbytes(rng.choice((1, 3, 16)))


def _insert_a_piece_of_another(data: bytearray, other: bytes, rng: random.Random) -> None:
    start, there = rng.randrange(len(data) + 1), rng.randrange(len(other) + 1)
    piece = other[there : there + rng.choice((2, 20, 200))]
    data[start : start + rng.choice((0, len(piece)))] = piece


def _near_the_start(data: bytearray, rng: random.Random) -> int:
    """Choose anywhere, or half of the time among the first bytes, where headers are."""
    return rng.randrange(max(1, min(len(data), rng.choice((64, len(data))))))


_WAYS = (
    _flip_a_bit,
    _put_an_odd_byte,
    _put_an_odd_number,
    _cut_the_end,
    _remove_a_piece,
    _repeat_a_piece,
    _insert_noise,
    _insert_a_piece_of_another,
)
