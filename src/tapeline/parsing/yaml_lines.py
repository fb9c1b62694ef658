"""Find the lines of a value in a YAML text that is edited as text."""

from typing import Any

from ruamel.yaml.nodes import MappingNode


def last_line(node: Any) -> int:
    """Return the last line of a node's content, from 0, without the blank lines and comments that follow it.

    It is 0 for a value that is empty, which has no line but its key's.
    """
    if _is_empty(node):
        return 0
    if not node.value or isinstance(node.value, str) or node.flow_style:
        return int(node.end_mark.line) - int(node.end_mark.column == 0)  # 0 after a block of text
    if isinstance(node, MappingNode):
        return max(last_line(part) for pair in node.value for part in pair)
    return max(int(item.start_mark.line) if _is_empty(item) else last_line(item) for item in node.value)


def _is_empty(node: Any) -> bool:
    """Return whether nothing is written for a node: its marks are at the next token, in a list behind the dash."""
    return bool(node.start_mark.index == node.end_mark.index)
