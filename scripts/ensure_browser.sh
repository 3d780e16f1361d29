#!/bin/sh
# Say what to install where Chromium is missing, in which the tests look at HTML reports; on Debian as root, install it.
for program in chromium chromium-browser google-chrome; do
    if command -v "$program" >/dev/null; then
        exit 0
    fi
done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Chromium is missing: installing chromium"
    apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-liberation >/dev/null 2>&1 && exit 0
fi
echo "Chromium is missing; one test needs it: install it, for example with 'apt-get install chromium'"
