"""Requests whose answers still differ from a real server's: each is an expected failure that must end when mended."""

#: By group: the number of the request in its group, and what it is about.
LEFT = {
    "pods": {
        18: "its command may not",
    },
}
