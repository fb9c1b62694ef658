"""TensorFlow cuts and rounds its sums in the same way on each CPU, with any number of cores.

Eigen, which computes products and convolutions, cuts long sums by the number of threads that it may use and by the size
of the first cache, which has 32 KiB on one CPU and 48 KiB on the next. TensorFlow does not offer Eigen's own function
for the sizes, so they are written where Eigen keeps them, found by the variable's name in the library's symbols, before
Eigen asks the CPU.

Standard library only, and nothing of Tapeline: programs without Tapeline's code load this file.
"""

import ctypes
import mmap
import struct
from pathlib import Path
from typing import Any

THREADS = 4
"""Threads of an operation, however many cores there are."""
INEXACT = {"arithmetic_optimization": False, "constant_folding": False}
"""Grappler's optimizers that make a product with an approximate reciprocal of a division."""
SIZES = (32 << 10, 512 << 10, 8 << 20)
"""Bytes of the first, second and third cache."""
_NAME = "ZN5Eigen8internal20manage_caching_sizesENS_6ActionEPlS2_S2_E12m_cacheSizes"
_VALUES, _GUARD = f"_Z{_NAME}", f"_ZGV{_NAME}"
"""The variable, and the byte that says that it has its values."""
_SYMBOL = struct.Struct("<IBBHQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL_TABLE = 2


def fix(tf: Any, threads: int = THREADS) -> bool:
    """Set threads, optimizers and cache sizes, and return whether Eigen has these sizes now.

    Raises `RuntimeError` if TensorFlow has begun with another number of threads, which it cannot change.
    """
    if tf.config.threading.get_intra_op_parallelism_threads() != threads:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.optimizer.set_experimental_options(INEXACT)
    return _fix_caches(Path(tf.sysconfig.get_lib()) / "libtensorflow_cc.so.2")


def _fix_caches(library: Path) -> bool:
    """Set the sizes in a loaded library. Returns False where it has no such variable, or has computed with others."""
    offsets = _addresses(library) if library.exists() else {}  # another system names it otherwise
    if not offsets:
        return False
    base = _base(library)
    guard = ctypes.c_byte.from_address(base + offsets[_GUARD])
    sizes = (ctypes.c_ssize_t * 3).from_address(base + offsets[_VALUES])
    if guard.value:
        return tuple(sizes) == SIZES
    sizes[:] = list(SIZES)
    guard.value = 1
    return True


def _base(library: Path) -> int:
    """Return the address at which this process has loaded a library."""
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        addresses, _, offset, *_, path = line.split(maxsplit=5)
        if int(offset, 16) == 0 and Path(path).name == library.name:
            return int(addresses.partition("-")[0], 16)
    raise LookupError(f"{library} is not loaded")


def _addresses(library: Path) -> dict[str, int]:
    """Return the addresses of the two symbols within a library (ELF, 64 bits); empty if it has not both."""
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        start, size, count = struct.unpack_from("<Q10xHH", content, 0x28)
        sections = [_SECTION.unpack_from(content, start + number * size) for number in range(count)]
        tables = [section for section in sections if section[1] == _SYMBOL_TABLE]
        if not tables:
            return {}
        _, _, _, _, first, length, link, *_ = tables[0]
        symbols, names = (first, first + length), (sections[link][4], sections[link][4] + sections[link][5])
        found = {name: _address(content, name, symbols, names) for name in (_VALUES, _GUARD)}
        return found if all(found.values()) else {}


def _address(content: mmap.mmap, name: str, symbols: tuple[int, int], names: tuple[int, int]) -> int:
    """Return a symbol's address; 0 if there is no such symbol."""
    at = content.find(f"\0{name}\0".encode(), *names)
    if at < 0:
        return 0
    number = struct.pack("<I", at + 1 - names[0])
    place = content.find(number, *symbols)
    while place >= 0 and (place - symbols[0]) % _SYMBOL.size:
        place = content.find(number, place + 1, symbols[1])
    return int(_SYMBOL.unpack_from(content, place)[4]) if place >= 0 else 0
