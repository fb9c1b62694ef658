"""TensorFlow cuts and rounds its sums in the same way on each CPU, with any number of cores.

Eigen, which computes products and convolutions, cuts long sums by the number of threads that it is told and by the size
of the first cache, which has 32 KiB on one CPU and 48 KiB on the next. TensorFlow offers no function for the sizes, nor
for a number of threads that is told apart from that of those that work. Both are written where the libraries keep them,
found by the variables' names in their symbols: the sizes before Eigen asks the CPU, the number before the first device
that computes is made.

So an operation is cut into the same parts everywhere, and as many threads work on them as there are cores. Four threads
on two cores take turns, which costs a perceptron under XLA a tenth of its speed, and an LSTM a quarter.

Standard library only, and nothing of Tapeline: programs without Tapeline's code load this file.
"""

import ctypes
import mmap
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

THREADS = 4
"""Threads that Eigen is told, however many cores there are."""
INEXACT = {"arithmetic_optimization": False, "constant_folding": False}
"""Grappler's optimizers that make a product with an approximate reciprocal of a division."""
SIZES = (32 << 10, 512 << 10, 8 << 20)
"""Bytes of the first, second and third cache."""
_CACHES = "ZN5Eigen8internal20manage_caching_sizesENS_6ActionEPlS2_S2_E12m_cacheSizes"
_VALUES, _GUARD = f"_Z{_CACHES}", f"_ZGV{_CACHES}"
"""The variable, and the byte that says that it has its values."""
_POOL = "_ZZN10tensorflow11LocalDeviceC1ERKNS_14SessionOptionsERKNS_16DeviceAttributesEE14global_tp_info"
"""The variable that points at the list of the pools that devices share: here one."""
_ONE = 2
"""The first word of a list of one element, which stands in the next word."""
_SYMBOL = struct.Struct("<IBBHQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL_TABLE = 2


def fix(tf: Any, make_devices: Callable[[Any], None], threads: int = THREADS) -> bool:
    """Set threads, optimizers and cache sizes, and return whether Eigen has these numbers now.

    make_devices: of `tensorflow_private`. threads: 1 where operations are not cut. Raises `RuntimeError` if
    TensorFlow has begun with another number, which it cannot change.
    """
    told = True
    if tf.config.threading.get_intra_op_parallelism_threads() != threads:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        told = threads == 1 or _tell(tf, make_devices, threads)
    tf.config.optimizer.set_experimental_options(INEXACT)
    return _fix_caches(Path(tf.sysconfig.get_lib()) / "libtensorflow_cc.so.2") and told


def _tell(tf: Any, make_devices: Callable[[Any], None], threads: int) -> bool:
    """Make the pool of threads, one for each core, and have it described to devices as another number of threads.

    Returns False where a pool with another number is there already, or stands in memory in another way. Where a library
    does not name it, nothing is made: as many threads will work as are told.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else threads
    library = Path(tf.sysconfig.get_lib()) / "libtensorflow_framework.so.2"
    offset = _addresses(library, _POOL).get(_POOL) if library.exists() else None
    if offset is None or cores == threads:
        return True
    config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=cores, device_count={"GPU": 0})
    make_devices(config)  # the first device makes the pool; those to come find it there
    memory = _Memory()
    try:
        pools = memory.word(memory.base(library) + offset)
        pool = memory.word(pools + 8)
        numbers = [memory.number(pool), memory.number(memory.word(pool + 16) + 8)]
        if memory.word(pools) != _ONE or any(number.value != cores for number in numbers):
            return False
    except LookupError:
        return False
    for number in numbers:
        number.value = threads
    return True


def _fix_caches(library: Path) -> bool:
    """Set the sizes in a loaded library. Returns False where it has no such variable, or has computed with others."""
    offsets = _addresses(library, _VALUES, _GUARD) if library.exists() else {}  # another system names it otherwise
    if len(offsets) < 2:
        return False
    base = _Memory().base(library)
    guard = ctypes.c_byte.from_address(base + offsets[_GUARD])
    sizes = (ctypes.c_ssize_t * 3).from_address(base + offsets[_VALUES])
    if guard.value:
        return tuple(sizes) == SIZES
    sizes[:] = list(SIZES)
    guard.value = 1
    return True


class _Memory:
    """What this process has mapped, as it was when this was made."""

    def __init__(self) -> None:
        lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
        self._lines = [line.split(maxsplit=5) for line in lines]

    def base(self, library: Path) -> int:
        """Return the address at which this process has loaded a library."""
        for addresses, _, offset, *_, path in self._lines:
            if int(offset, 16) == 0 and Path(path).name == library.name:
                return int(addresses.partition("-")[0], 16)
        raise LookupError(f"{library} is not loaded")

    def word(self, address: int) -> int:
        """Return the eight bytes at an address."""
        return ctypes.c_uint64.from_address(self._mapped(address)).value

    def number(self, address: int) -> ctypes.c_int:
        """Return the four bytes at an address, which can be changed."""
        return ctypes.c_int.from_address(self._mapped(address))

    def _mapped(self, address: int) -> int:
        """Return the address. Raises `LookupError` if it is none that this process may read and write."""
        for addresses, may, *_ in self._lines:
            first, _, end = addresses.partition("-")
            if int(first, 16) <= address <= int(end, 16) - 8 and may.startswith("rw"):
                return address
        raise LookupError(f"{address:#x} is not mapped")


def _addresses(library: Path, *names: str) -> dict[str, int]:
    """Return the addresses of symbols within a library (ELF, 64 bits), of those that it has."""
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        start, size, count = struct.unpack_from("<Q10xHH", content, 0x28)
        sections = [_SECTION.unpack_from(content, start + number * size) for number in range(count)]
        tables = [section for section in sections if section[1] == _SYMBOL_TABLE]
        if not tables:
            return {}
        _, _, _, _, first, length, link, *_ = tables[0]
        symbols, texts = (first, first + length), (sections[link][4], sections[link][4] + sections[link][5])
        found = {name: _address(content, name, symbols, texts) for name in names}
        return {name: address for name, address in found.items() if address}


def _address(content: mmap.mmap, name: str, symbols: tuple[int, int], texts: tuple[int, int]) -> int:
    """Return a symbol's address; 0 if there is no such symbol."""
    at = content.find(f"\0{name}\0".encode(), *texts)
    if at < 0:
        return 0
    number = struct.pack("<I", at + 1 - texts[0])
    place = content.find(number, *symbols)
    while place >= 0 and (place - symbols[0]) % _SYMBOL.size:
        place = content.find(number, place + 1, symbols[1])
    return int(_SYMBOL.unpack_from(content, place)[4]) if place >= 0 else 0
