// Bytes that stay with the host: the resource `blob` of the interface `blobs`.
export class Blob {
  #bytes;

  // Creates a blob from bytes or from a text.
  constructor(content) {
    this.#bytes = typeof content === 'string' ? new TextEncoder().encode(content) : content;
  }

  size = () => BigInt(this.#bytes.length);
  read = (offset, length) => this.#bytes.slice(Number(offset), Number(offset) + length);
  slice = (offset, length) => new Blob(this.read(offset, Number(length)));

  // Returns all bytes. Only tests and the fake host have this function.
  bytes = () => this.#bytes;
}
