# SPDX-License-Identifier: Apache-2.0
"""Which commands work on the server's host and open the database themselves? One file per command."""
