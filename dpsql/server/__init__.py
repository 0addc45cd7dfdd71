"""The server: who asks what, answered in one place (core.py) for every protocol.

core.py is the only caller of sessions; http.py is the HTTP API in front of it, serve.py the process around it.
"""
