#!/usr/bin/env bash
# Prints "host:processes" for every host of a list that answers to ssh just now.
#
#     horovodrun … --host-discovery-script containers/discover_hosts.sh …
#
# HOSTS_FILE (default: hosts.txt) has lines of the form "host1 slots=8", as for
# horovodrun's --hostfile. Not run on a cluster yet: see BUILD.md.
set -uo pipefail

while read -r host slots || [[ -n $host ]]; do
    if ssh -n -o BatchMode=yes -o ConnectTimeout=3 "$host" true 2>/dev/null; then
        echo "$host:${slots#slots=}"
    fi
done < "${HOSTS_FILE:-hosts.txt}"
