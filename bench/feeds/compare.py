"""Compares what a follower knows with the mailbox.

The state of a mailbox is a dictionary: for each folder the list of its messages in the order of
their IMAP UIDs. A message is a tuple of its tag, which is its subject, and its flags. A copy has
the tag of its original. A row is what a follower knows of one message: (id, folder, tag, flags).
The flags of a row are None if the follower cannot know them."""

import collections


def differences(folders, rows, state):
    """Returns a list of differences. Each is a tuple of a kind and a text."""
    found = [("missing folder", folder) for folder in sorted(set(state) - set(folders))]
    found += [("extra folder", folder) for folder in sorted(set(folders) - set(state))]
    without_flags = {(folder, tag) for _, folder, tag, flags in rows if flags is None}
    expected = collections.Counter()
    for folder, messages in state.items():
        for tag, flags in messages:
            expected[folder, tag, None if (folder, tag) in without_flags else flags] += 1
    known = collections.Counter((folder, tag, flags) for _, folder, tag, flags in rows)
    missing = list((expected - known).elements())
    extra = list((known - expected).elements())
    by_place = lambda row: (row[1], row[0])
    found += _pairs(missing, extra, by_place, "wrong flags", lambda row: _words(row[2]))
    by_tag = lambda row: row[1]
    found += _pairs(missing, extra, by_tag, "wrong folder", lambda row: row[0])
    found += [("missing message", f"{tag} in {folder}") for folder, tag, _ in missing]
    found += [("extra message", f"{tag} in {folder}") for folder, tag, _ in extra]
    return found


def _pairs(missing, extra, key, kind, text):
    """Removes the pairs of a missing and an extra row with the same key, and returns them."""
    found = []
    for row in list(missing):
        other = next((other for other in extra if key(other) == key(row)), None)
        if other:
            missing.remove(row)
            extra.remove(other)
            found.append((kind, f"{row[1]} in {row[0]}: {text(other)} instead of {text(row)}"))
    return found


def _words(flags):
    return "(" + " ".join(sorted(flags or ())) + ")"


class Identities:
    """Checks that a message keeps its id. A message that was ever copied is not checked, because
    no client can distinguish a copy from its original."""

    def __init__(self):
        self.ids = {}

    def changes(self, rows, copied):
        """Returns a list of differences between these rows and earlier ones."""
        found = []
        for id, _, tag, _ in rows:
            if tag in copied:
                self.ids.pop(tag, None)
            elif self.ids.setdefault(tag, id) != id:
                found.append(("changed id", f"{tag}: {id} instead of {self.ids[tag]}"))
                self.ids[tag] = id
        return found
