//! `[plans.<name>]`: the limits of accounts.

use super::values::section;

section! {
    /// A section `[plans.<name>]` of the configuration: the limits of each account with this plan.
    pub struct Plan {
        /// The maximum number of custom domains of an account.
        pub custom_domains: u32 = 5,
        /// The maximum number of other accounts that have access to an account's mailbox.
        pub guests: u32 = 5,
        /// The maximum size of an account's mailbox, in bytes. 0 means no limit. The mail server
        /// enforces the limit.
        pub storage: u64 = 0,
    }
}
