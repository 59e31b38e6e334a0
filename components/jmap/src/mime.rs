//! Messages (RFC 5322, RFC 2045 to 2049) in the forms of JMAP: the complete tree of parts, raw
//! header fields and their parsed forms. The host's own parser serves the REST routes, which need
//! neither the tree nor the raw fields.

pub(crate) mod address;
pub(crate) mod forms;
pub(crate) mod parameters;
pub(crate) mod structure;
pub(crate) mod text;
pub(crate) mod words;
pub(crate) mod write;
