#!/bin/sh
# The Spark tests on the lowest and on the newest Spark, each in a virtual environment of its own.
#
#   scripts/test_matrix.sh [pytest arguments…]
#   VERSIONS=4.0 scripts/test_matrix.sh -k join
set -eu
: "${PYTHON:=python3}" "${VERSIONS:=4.0 4}"

for version in $VERSIONS; do
    venv=".venv-spark-$version"
    [ -d "$venv" ] || "$PYTHON" -m venv "$venv"
    # "4" is the newest of all 4.x.
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --upgrade --editable ".[test]" "pyspark[connect]==$version.*"
    echo "Spark $("$venv/bin/python" -c 'import pyspark; print(pyspark.__version__)')"
    # PySpark 4.0 leaves the sockets that rows are collected through to the garbage collector.
    "$venv/bin/python" -m pytest tests/spark tests/spark_plain \
        -W "ignore:unclosed <socket:ResourceWarning" -W ignore::pytest.PytestUnraisableExceptionWarning "$@"
done
