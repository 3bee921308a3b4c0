# SPDX-License-Identifier: GPL-2.0
"""ask.py SOCKET LINES [KEY...]: sends each line to lardd; of each answer, what the keys lead to."""
import json
import socket
import sys

_, path, lines, *keys = sys.argv
control = socket.socket(socket.AF_UNIX)
control.connect(path)
control.sendall((lines + "\n").encode())
answers = control.makefile()
for _ in lines.splitlines():
    answer = json.loads(answers.readline())
    for key in keys:
        answer = answer[int(key) if key.isdigit() else key]
    print(answer)
