# SPDX-License-Identifier: Apache-2.0
"""The rules. Standard library only: facts and `now` in, a value out."""
