"""The Python door, from the inside. `interlock.client` is what others import.

bus, blocking ──▶ holds, grants, feeds ──▶ link (asks again over restarts) ──▶ wire (one connection)
"""
