"""Bytes as ASCII text and back, against bits written out one by one."""

from hypothesis import given
from hypothesis import strategies as st
from millrace.kernels.ascii_text import from_text, to_text


def slow_text(data: bytes) -> str:
    """All bits in a row, lowest first, and seven of them to a character."""
    bits = [byte >> i & 1 for byte in data for i in range(8)]
    bits += [0] * (-len(bits) % 7)
    return "".join(chr(sum(bit << i for i, bit in enumerate(bits[j : j + 7]))) for j in range(0, len(bits), 7))


@given(st.binary(max_size=40))
def test_text_and_back(data):
    assert to_text(data) == slow_text(data)
    assert bytes(from_text(to_text(data))) == data
