"""Random names that people can pronounce and that cannot be guessed: 64 random bits as `lusab-babad-gutih-tugad`."""

import secrets

# Letters with distinct sounds, so that a name can be read aloud.
CONSONANTS = "bdfghjklmnprstvz"
VOWELS = "aiou"
WORD = (CONSONANTS, VOWELS, CONSONANTS, VOWELS, CONSONANTS)


def pronounceable():
    return "-".join(_spelt(secrets.randbits(16)) for _ in range(4))


def _spelt(bits):
    """Returns the word for a number of 16 bits."""
    word = ""
    for letters in WORD:
        bits, letter = divmod(bits, len(letters))
        word += letters[letter]
    return word
