//! The revisions of the protocol that are spoken. The newest tells in every request what it is; the older ones begin with a handshake, which nothing is
//! remembered of here, and name themselves in a header from then on.

/// A revision, the oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Revision {
    /// 2025-03-26: the first over Streamable HTTP, with batches; before the header.
    R2025_03_26,
    /// 2025-06-18: structured results.
    R2025_06_18,
    /// 2025-11-25: errors may lack an id.
    R2025_11_25,
    /// 2026-07-28: no handshake.
    R2026_07_28,
}

/// All, the newest first.
pub(crate) const ALL: [Revision; 4] = [
    Revision::R2026_07_28,
    Revision::R2025_11_25,
    Revision::R2025_06_18,
    Revision::R2025_03_26,
];

impl Revision {
    /// Its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::R2025_03_26 => "2025-03-26",
            Self::R2025_06_18 => "2025-06-18",
            Self::R2025_11_25 => "2025-11-25",
            Self::R2026_07_28 => "2026-07-28",
        }
    }

    /// The one of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        ALL.into_iter().find(|revision| revision.name() == name)
    }

    /// What a handshake agrees on: what the client asks for, or the newest that has a handshake.
    pub(crate) fn agreed(asked: &str) -> Self {
        Self::named(asked)
            .filter(|revision| !revision.is_stateless())
            .unwrap_or(Self::R2025_11_25)
    }

    /// Whether every request tells all that there is to know of it.
    pub(crate) fn is_stateless(self) -> bool {
        self >= Self::R2026_07_28
    }

    /// Whether a body may hold several messages.
    pub(crate) fn has_batches(self) -> bool {
        self == Self::R2025_03_26
    }

    /// Whether tools have titles and schemas of what they answer, and answers a structured half.
    pub(crate) fn has_structure(self) -> bool {
        self >= Self::R2025_06_18
    }

    /// Whether an error that answers no request lacks its id; before that it is null, as JSON-RPC has it.
    pub(crate) fn may_lack_id(self) -> bool {
        self >= Self::R2025_11_25
    }
}
