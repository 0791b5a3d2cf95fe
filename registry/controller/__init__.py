# SPDX-License-Identifier: Apache-2.0
"""How are the decisions brought to a Kubernetes cluster? A loop that sees nodes, asks, and marks them.

loop        the rounds                     watching    list and watch            nodes     what was seen last
asking      decisions, and when again      applying    taints and conditions     seen      one Node object, read
lease       who of several acts            api_server  the API server by REST    cluster   where it is
refusals    what was not written           meters      what is counted           logs      lines of JSON
bell        waits that can be ended

It takes everything from what stands now: nothing that it remembers is needed by whoever follows it.
"""
