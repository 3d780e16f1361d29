"""`watch`: a live table of what streaming queries do."""


def watch(*a, **k): ...
