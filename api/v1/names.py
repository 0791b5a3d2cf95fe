# SPDX-License-Identifier: Apache-2.0
"""Can this be a node's name?"""

from __future__ import annotations

from api.schemas.fields import NODE_NAME_MUST, is_node_name
from registry.domain.errors import FieldError, InvalidField


def check_node(node: str) -> None:
    """Raise InvalidField for an address whose node no report could ever name."""
    if not is_node_name(node):
        must = f"must be {NODE_NAME_MUST}"
        raise InvalidField(f"the node in the address {must}", errors=(FieldError("/node", must),))
