"""Millrace's operators for PySpark."""
