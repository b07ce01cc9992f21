"""SipHash-2-4 with 128 bits, written from its reference (Aumasson, Bernstein)."""

_MASK = 2**64 - 1


def _rotated(value: int, by: int) -> int:
    return (value << by | value >> (64 - by)) & _MASK


def siphash_128(key: tuple[int, int], data: bytes) -> bytes:
    v0, v1 = key[0] ^ 0x736F6D6570736575, key[1] ^ 0x646F72616E646F6D ^ 0xEE
    v2, v3 = key[0] ^ 0x6C7967656E657261, key[1] ^ 0x7465646279746573

    def rounds(number: int) -> None:
        nonlocal v0, v1, v2, v3
        for _ in range(number):
            v0, v2 = (v0 + v1) & _MASK, (v2 + v3) & _MASK
            v1, v3 = _rotated(v1, 13) ^ v0, _rotated(v3, 16) ^ v2
            v0 = _rotated(v0, 32)
            v2, v0 = (v2 + v1) & _MASK, (v0 + v3) & _MASK
            v1, v3 = _rotated(v1, 17) ^ v2, _rotated(v3, 21) ^ v0
            v2 = _rotated(v2, 32)

    whole = len(data) - len(data) % 8
    last = data[whole:].ljust(7, b"\0") + bytes([len(data) % 256])
    for word in [*(data[at : at + 8] for at in range(0, whole, 8)), last]:
        number = int.from_bytes(word, "little")
        v3 ^= number
        rounds(2)
        v0 ^= number
    v2 ^= 0xEE
    rounds(4)
    first = v0 ^ v1 ^ v2 ^ v3
    v1 ^= 0xDD
    rounds(4)
    return first.to_bytes(8, "little") + (v0 ^ v1 ^ v2 ^ v3).to_bytes(8, "little")
