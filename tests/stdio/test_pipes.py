"""Standard input as lines, and standard output that belongs to the protocol."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from adapter.stdio import pipes
from adapter.stdio.pipes import TOO_LONG, read_line, serve_stdio, standard_pipes
from tests.support.adapter import PATIENCE, Mcp, tool, until


def reader(*chunks: bytes, limit: int = 10) -> asyncio.StreamReader:
    """A reader of input that has ended."""
    stream = asyncio.StreamReader(limit=limit)
    for chunk in chunks:
        stream.feed_data(chunk)
    stream.feed_eof()
    return stream


async def all_lines(stream: asyncio.StreamReader) -> list[bytes]:
    found = []
    while line := await read_line(stream):
        found.append(line)
    return found


# --- lines ----------------------------------------------------------------------------------------------


@pytest.mark.requirement("R-140")
@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        ([], []),
        ([b"one\n", b"two\n"], [b"one\n", b"two\n"]),
        ([b"on", b"e\ntw", b"o\n"], [b"one\n", b"two\n"]),
        ([b"\n\n"], [b"\n", b"\n"]),
        ([b"one\nlast"], [b"one\n", b"last"]),
        ([b"x" * 9 + b"\n", b"y\n"], [b"x" * 9 + b"\n", b"y\n"]),
    ],
)
async def test_input_is_read_line_by_line(chunks: list[bytes], lines: list[bytes]) -> None:
    assert await all_lines(reader(*chunks)) == lines


@pytest.mark.requirement("R-140")
@pytest.mark.parametrize("length", [11, 12, 19, 20, 21, 35, 100])
@pytest.mark.parametrize("cut", [1, 7, 1000])
async def test_a_line_that_is_too_long_is_one_bad_line_and_the_next_is_whole(length: int, cut: int) -> None:
    text = b"a\n" + b"x" * length + b"\n" + b"b\n"
    stream = asyncio.StreamReader(limit=10)
    reading = asyncio.create_task(all_lines(stream))
    for start in range(0, len(text), cut):
        stream.feed_data(text[start : start + cut])
        await asyncio.sleep(0)
    stream.feed_eof()

    assert await reading == [b"a\n", TOO_LONG, b"b\n"]


async def test_a_line_that_is_too_long_may_be_the_last() -> None:
    assert await all_lines(reader(b"x" * 50)) == [TOO_LONG]


async def test_a_line_that_is_too_long_is_told_as_one() -> None:
    answer = await Mcp(tool()).post(TOO_LONG)

    assert answer.refusal == (400, -32700)


# --- the real descriptors -------------------------------------------------------------------------------


class Ends:
    """The other ends of standard input and output."""

    def __init__(self, tmp_path: Path) -> None:
        self.input_read, self.input_write = os.pipe()
        self.output = tmp_path / "output"

    def give(self, text: bytes) -> None:
        os.write(self.input_write, text)

    def close(self) -> None:
        os.close(self.input_write)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        with os.fdopen(self.input_read) as given, self.output.open("w") as taken, standing_for(given, taken):
            yield


@contextmanager
def standing_for(standard_input: IO[str], standard_output: IO[str]) -> Iterator[None]:
    """These are the standard input and output in the block."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", standard_input)
        patch.setattr(sys, "stdout", standard_output)
        yield


@pytest.fixture
def ends(tmp_path: Path) -> Ends:
    return Ends(tmp_path)


@pytest.mark.requirement("R-140")
async def test_what_others_print_goes_to_standard_error(
    ends: Ends, capsys: pytest.CaptureFixture[str]
) -> None:
    with ends.in_place():
        async with standard_pipes() as (_, write):
            print("from a library")  # noqa: T201 - as a library might
            await asyncio.gather(write(b'{"a":1}'), write(b'{"b":2}'))
            ends.close()

    assert sorted(ends.output.read_bytes().splitlines()) == [b'{"a":1}', b'{"b":2}']
    assert "from a library" in capsys.readouterr().err


async def test_a_client_that_has_closed_our_output_is_told_to_the_writer(ends: Ends) -> None:
    read, written = os.pipe()
    os.close(read)
    with os.fdopen(ends.input_read) as given, os.fdopen(written, "w") as taken, standing_for(given, taken):
        async with standard_pipes() as (_, write):
            with pytest.raises(BrokenPipeError):
                await write(b"{}")
            ends.close()


@pytest.mark.requirement("R-140", "R-143")
async def test_one_client_is_served_until_it_closes_our_input(ends: Ends) -> None:
    with ends.in_place():
        serving = asyncio.create_task(serve_stdio(Mcp(tool()).parts.endpoint, asyncio.Event()))
        ends.give(b'{"jsonrpc":"2.0","id":1,"me')
        ends.give(b'thod":"ping"}\n')
        await until(lambda: ends.output.read_bytes().endswith(b"\n"))
        ends.close()
        async with asyncio.timeout(PATIENCE):
            await serving

    assert ends.output.read_bytes() == b'{"jsonrpc":"2.0","id":1,"result":{}}\n'


@pytest.mark.requirement("R-143")
async def test_being_asked_to_end_is_like_the_end_of_the_input(ends: Ends) -> None:
    asked = asyncio.Event()
    with ends.in_place():
        serving = asyncio.create_task(serve_stdio(Mcp(tool()).parts.endpoint, asked))
        ends.give(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        await until(lambda: ends.output.read_bytes().endswith(b"\n"))
        asked.set()
        async with asyncio.timeout(PATIENCE):
            await serving
        ends.close()

    assert ends.output.read_bytes() == b'{"jsonrpc":"2.0","id":1,"result":{}}\n'


async def test_nobody_is_told_of_input_after_the_loop_is_closed(ends: Ends) -> None:
    """The thread that reads outlives the loop at most until the next input."""
    loop = asyncio.new_event_loop()
    loop.close()
    ends.give(b"late\n")

    await asyncio.to_thread(pipes._pump, ends.input_read, loop, asyncio.StreamReader())

    ends.close()
    os.close(ends.input_read)


def test_a_file_can_be_the_input(tmp_path: Path) -> None:
    requests, output = tmp_path / "requests", tmp_path / "output"
    requests.write_bytes(b'{"jsonrpc":"2.0","id":"x","method":"ping"}\n')

    with requests.open() as given, output.open("w") as taken, standing_for(given, taken):
        asyncio.run(serve_stdio(Mcp(tool()).parts.endpoint, asyncio.Event()))

    assert output.read_bytes() == b'{"jsonrpc":"2.0","id":"x","result":{}}\n'
