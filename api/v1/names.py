# SPDX-License-Identifier: Apache-2.0
"""Can this be a node's name?"""

from __future__ import annotations

import re

from api.schemas.fields import NODE_NAME
from registry.domain.errors import FieldError, InvalidField

_NODE = re.compile(NODE_NAME)


def check_node(node: str) -> None:
    """Raise InvalidField for an address whose node no report could ever name."""
    if _NODE.fullmatch(node) is None:
        must = "must be 1 to 253 of the characters A-Z a-z 0-9 . _ -"
        raise InvalidField(f"the node in the address {must}", errors=(FieldError("/node", must),))
