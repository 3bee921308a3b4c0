#!/usr/bin/python3
"""A test whose main() nobody calls."""
