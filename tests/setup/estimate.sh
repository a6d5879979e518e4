#!/usr/bin/env bash
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# How long something takes on this machine, judged by the last time.
# estimate.sh show WHAT           prints for example "about 4 min", or nothing before the first time
# estimate.sh save WHAT SECONDS   keeps the time for the next estimate
set -euo pipefail

file=${XDG_CACHE_HOME:-$HOME/.cache}/hpcai-azure/seconds/$2

case $1 in
show)
    # There is no file before the first run has ended. A file that was cut off or edited is no estimate.
    seconds=$(cat "$file" 2>/dev/null || true)
    [[ $seconds =~ ^[1-9][0-9]{0,5}$ ]] || exit 0
    if ((seconds < 90)); then
        printf 'about %d s\n' "$seconds"
    else
        printf 'about %d min\n' $(((seconds + 30) / 60))
    fi
    ;;
save)
    mkdir -p "$(dirname "$file")"
    printf '%d\n' "$3" >"$file.new"
    mv "$file.new" "$file"
    ;;
*)
    echo "usage: tests/setup/estimate.sh show WHAT | save WHAT SECONDS" >&2
    exit 64
    ;;
esac
