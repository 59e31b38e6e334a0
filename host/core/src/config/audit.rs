//! `[audit]`: the audit log.

use super::values::section;

section! {
    /// The section `[audit]` of the configuration.
    pub struct Audit {
        /// The number of days after which a security event is deleted.
        pub days: u32 = 400,
    }
}
