"""The engines: each turns speech into a character's speech with one kind of bundle.

`interface` says what an engine is and `registry` lists the engines. A new engine is a folder with
`contracts` and `build`, and one line in `registry.ENGINES`.
"""
