"""`ogsql shell`: `.gq` and SQL at one prompt.

`statements` splits a text, `completion` proposes words, `commands` has the backslash commands; `session` runs statements,
`screen` directs their results. None of them needs a terminal: `pipe` feeds a session from a stream, `prompt` from a prompt.
"""
