#!/bin/sh
# Say what to install where Java 17 or newer is missing; on Debian as root, install it.
version=$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
if [ "${version:-0}" -ge 17 ]; then
    exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Java 17 or newer is missing: installing openjdk-17-jre-headless"
    apt-get update -qq && apt-get install -y -qq openjdk-17-jre-headless >/dev/null && exit 0
fi
echo "Java 17 or newer is missing; Spark needs it: install it, for example with 'apt-get install openjdk-17-jre-headless'"
