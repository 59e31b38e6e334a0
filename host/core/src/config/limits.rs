//! `[limits]`: the rate limits.

use super::values::section;

section! {
    /// `[limits]`: requests per minute, by bucket.
    #[expect(missing_docs, reason = "each is the bucket of the same name")]
    pub struct Limits {
        pub mail: u32 = 60,
        pub search: u32 = 20,
        pub events: u32 = 60,
        pub aliases: u32 = 30,
        pub profile: u32 = 30,
        pub tokens: u32 = 30,
        pub app_passwords: u32 = 30,
        pub sign_in: u32 = 5,
        pub sign_in_address: u32 = 5,
        pub unproven: u32 = 300,
        pub registration: u32 = 3,
        pub password_change: u32 = 5,
        pub domains_read: u32 = 30,
        pub domains_write: u32 = 10,
        pub mcp: u32 = 120,
        pub jmap: u32 = 300,
        pub teams: u32 = 30,
        pub webhooks: u32 = 30,
        pub modules: u32 = 60,
        pub public: u32 = 30,
        pub readiness: u32 = 60,
        pub session: u32 = 30,
        pub oauth: u32 = 30,
        pub admin: u32 = 60,
    }
}
