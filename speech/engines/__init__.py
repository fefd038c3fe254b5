"""The engines: each turns speech into a character's speech with one kind of bundle.

`base` says what an engine is and `registry` lists the engines. A new engine is a module with
`contracts` and `build`, and one line in `registry.ENGINES`.
"""
