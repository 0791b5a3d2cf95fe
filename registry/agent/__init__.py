# SPDX-License-Identifier: Apache-2.0
"""How does a node watch over itself? A loop that looks, tells, and acts as told.

loop       the rounds               looking    one look at all sources     acting   file and command
telling    what goes out, and when  sources    which sources there are     memory   what outlives the agent
messages   the JSON of a report     kernel     the kernel log, read on     running  tools under a limit
spool      what waits on the disk   who        which node, instance, boot  notify   systemd
times      the machine's clocks
"""
