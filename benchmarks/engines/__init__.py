"""Other stream engines, each a program of its own that needs its engine, NumPy and pyarrow, and nothing of ours."""
