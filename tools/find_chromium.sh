#!/bin/sh
# Finds a Chromium for `make test-page`, or installs Debian's; says how, and exits with 1, where it can do neither.
for name in chromium chromium-browser google-chrome; do
    command -v "$name" >/dev/null && exit 0
done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get install -y -qq chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq chromium >/dev/null; }
    command -v chromium >/dev/null && exit 0
fi
echo "no Chromium here, so the page is not tested in a browser: install one (apt-get install chromium, as root) and call again" >&2
exit 1
