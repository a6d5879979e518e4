#!/usr/bin/env bash
# Copyright (c) 2026, hpcai.azure contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Build the documentation site from the plugins, the roles, docs/docsite and docs/images, and an archive of it for a
# release. Needs .venv (make setup).
set -euo pipefail
cd "$(dirname "$0")/../.."

export PATH=$PWD/.venv/bin:$PATH ANSIBLE_COLLECTIONS_PATH=$PWD/.collections
site=.cache/docs
rm -rf "$site"
mkdir -p "$site"
# Lenient: links to Ansible's own documentation stay unresolved if it cannot be reached.
antsibull-docs sphinx-init --dest-dir "$site" --use-current --squash-hierarchy --fail-on-error --lenient \
  --extra-html-theme-options documentation_home_url=https://docs.ansible.com/ \
  --project hpcai.azure --title hpcai.azure --html-short-title hpcai.azure --copyright 'hpcai.azure contributors' \
  hpcai.azure >/dev/null
# antsibull-docs takes only the guides. They name pictures as ../../images/NAME, which is right in the repository too.
cp -r docs/images "$site/images"
(cd "$site" && bash ./build.sh)

# Sphinx only warns if a page or a picture is missing. Its search needs the last two files.
wanted=(index.html search.html searchindex.js)
for page in docs/docsite/rst/*.rst; do wanted+=("docsite/$(basename "$page" .rst).html"); done
for picture in docs/images/*; do wanted+=("_images/$(basename "$picture")"); done
for file in "${wanted[@]}"; do
    [ -f "$site/build/html/$file" ] || {
        echo "docs.sh: Sphinx wrote no $site/build/html/$file; its messages above say why" >&2
        exit 1
    }
done

# A reader unpacks it anywhere and opens index.html, without a web server, so all links in it must be relative.
version=$(sed -n 's/^version: //p' galaxy.yml)
archive=.cache/hpcai-azure-docs-$version.tar.gz
tar -czf "$archive" -C "$site/build/html" --transform "s,^\.,hpcai-azure-docs-$version," .
python tests/setup/docs_links.py "$archive"
echo "[docs] open $site/build/html/index.html; for a release: $archive"
