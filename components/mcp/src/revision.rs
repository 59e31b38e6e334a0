//! The supported revisions of the protocol. In the newest revision, there is no handshake and every
//! request contains its revision. In older revisions, a client starts with a handshake. The server
//! does not store the handshake, so a header of each following request contains the revision.

/// A revision of the protocol. The variants are ordered from the oldest to the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Revision {
    /// The first revision with Streamable HTTP. This is the only revision with batches, and the
    /// only revision without the revision header.
    R2025_03_26,
    /// This revision adds structured results.
    R2025_06_18,
    /// This revision allows errors without an id.
    R2025_11_25,
    /// This revision has no handshake.
    R2026_07_28,
}

/// All revisions, the newest first.
pub(crate) const ALL: [Revision; 4] = [
    Revision::R2026_07_28,
    Revision::R2025_11_25,
    Revision::R2025_06_18,
    Revision::R2025_03_26,
];

impl Revision {
    /// Returns the name of the revision.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::R2025_03_26 => "2025-03-26",
            Self::R2025_06_18 => "2025-06-18",
            Self::R2025_11_25 => "2025-11-25",
            Self::R2026_07_28 => "2026-07-28",
        }
    }

    /// Returns the revision with this name, or `None` if the name is not supported.
    pub(crate) fn named(name: &str) -> Option<Self> {
        ALL.into_iter().find(|revision| revision.name() == name)
    }

    /// Returns the revision to use after a handshake. If the requested revision is not available,
    /// returns the newest revision with a handshake.
    pub(crate) fn negotiate(requested: &str) -> Self {
        Self::named(requested)
            .filter(|revision| !revision.is_stateless())
            .unwrap_or(Self::R2025_11_25)
    }

    /// Returns whether the revision has no handshake.
    pub(crate) fn is_stateless(self) -> bool {
        self >= Self::R2026_07_28
    }

    /// Returns whether a body may contain several messages.
    pub(crate) fn has_batches(self) -> bool {
        self == Self::R2025_03_26
    }

    /// Returns whether tools have titles, output schemas and structured results.
    pub(crate) fn has_structure(self) -> bool {
        self >= Self::R2025_06_18
    }

    /// Returns whether errors that belong to no request have no id. In earlier revisions the id is
    /// null, as in JSON-RPC.
    pub(crate) fn may_lack_id(self) -> bool {
        self >= Self::R2025_11_25
    }
}
