"""Commands and flags that 0.3 no longer has, each with what to use instead."""

REMOVED = {
    "compare-records": "builds with the same options are equal byte for byte, so "
    "`diff -r` compares them",
    "serve-check": "`python -m benchmarks.serving` measures an exported model",
}
