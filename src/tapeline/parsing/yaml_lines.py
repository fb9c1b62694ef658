"""Find the lines of a value in a YAML text that is edited as text."""

from typing import Any

from ruamel.yaml.nodes import MappingNode


def last_line(node: Any) -> int:
    """Return the last line of a node's content, from 0, without the blank lines and comments that follow it."""
    if not node.value or isinstance(node.value, str) or node.flow_style:
        mark = node.end_mark
        is_next = mark.column == 0 or mark.index == node.start_mark.index  # after a block of text, or nothing at all
        return int(mark.line) - int(is_next)
    inner = [part for pair in node.value for part in pair] if isinstance(node, MappingNode) else node.value
    return max(last_line(part) for part in inner)
