"""`ogsql shell`: `.gq` and SQL at one prompt.

`statements` says where a statement ends, `completion` what may come next, `commands` what a backslash does; `session` runs
what it is given, `screen` decides where results go. None of them needs a terminal: `piping` feeds a session from a stream,
`prompting` from a prompt.
"""
