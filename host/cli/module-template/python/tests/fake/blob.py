"""Bytes that stay with the host: the resource `blob` of the interface `blobs`."""


class Blob:
    def __init__(self, content):
        """Creates a blob from bytes or from a text. The attribute `content` exists only in the fake host."""
        self.content = content.encode() if isinstance(content, str) else content

    def size(self):
        return len(self.content)

    def read(self, offset, length):
        return self.content[offset : offset + length]

    def slice(self, offset, length):
        return Blob(self.read(offset, length))
