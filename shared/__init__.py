"""Code that several deployables share, in layers.

`voices` and `characters` say what a voice and a character are, `ports` holds the protocols of what
is outside, `google` their implementations with Google Cloud, `container` what serves requests,
`runtime` what every process needs, and `pipeline` steps that several deployables take.
"""
